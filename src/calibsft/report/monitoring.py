"""A watch over a promise as plain text for a terminal."""

from collections.abc import Mapping
from typing import Any

from calibsft.decisions.policy import ABSTAIN
from calibsft.monitoring import Watched


def watch_lines(found: Watched, alarm: Mapping[str, Any] | None, repeated: int, left_out: int) -> list[str]:
    """What is promised, what the labels say of it, and where the alarm was raised, if it was."""
    policy, state = found.policy, found.state
    counted, events = ("answered", "wrong") if policy.otherwise == ABSTAIN else ("counted", "lost")
    lines = [
        f"policy {policy.id}: {policy.promise}",
        f"{found.responses:,} labelled questions, {state.labels:,} of them {counted}, {state.events:,} {events}",
    ]
    if state.rate is not None:
        lines.append(
            f"{_percent(state.rate)} {events}, and at least {_percent(state.lower_bound)} with probability {1 - state.delta:g} or more"
        )
    lines.append(f"e-value {state.e_value:.3g}; an alarm begins at {1 / state.delta:g}")
    if alarm is None:
        lines.append("no alarm")
    else:
        place = ", ".join(f"{name} {value}" for name, value in alarm.items() if value != "")
        lines.append(
            f"ALARM at {place}: more is {events} than the budget allows; certify or route again on recent questions"
        )
    others = (
        (repeated, "further responses to the same questions"),
        (left_out, "rows without a readable gold or confidence"),
    )
    return lines + [f"left out: {count:,} {what}" for count, what in others if count]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
