"""What a decision promises, in words: every output, policy and header that has one names it in the same way."""

from calibsft.errors import unknown_name

HIGH_PROBABILITY, EXPECTATION = "high-probability", "expectation"
GUARANTEES = (HIGH_PROBABILITY, EXPECTATION)


def require_guarantee(name: str) -> None:
    """Refuse an unknown guarantee by name."""
    if name not in GUARANTEES:
        unknown_name("guarantee", name, list(GUARANTEES))


def promise(what: str, guarantee: str, delta: float | None) -> str:
    """`what`, such as "at most 10 % of the answers are wrong", with the kind of guarantee that it holds."""
    if guarantee == EXPECTATION:
        return f"{what} on average over calibrations, but after a single one it may be more"
    assert delta is not None
    return f"{what} with probability {1 - delta:g} or more"
