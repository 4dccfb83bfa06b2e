"""Decisions as plain text for a terminal: what was certified, what it does, and the table it comes from."""

from collections.abc import Mapping
from dataclasses import astuple

from calibsft.decisions import Certificate, Route, Spread
from calibsft.decisions.policy import ABSTAIN, Policy
from calibsft.text_table import table_lines

# Of 101 thresholds a terminal shows every tenth, the chosen one and the one below it.
SHOWN_EVERY = 10


def certificate_lines(
    certificate: Certificate, perfect: float, held_out: Mapping[str, Spread | None], splits: int
) -> list[str]:
    """What may be answered, here and on held-out halves, beside a perfect ranking."""
    lines = [
        _verdict(certificate.threshold, "answer", "abstain on everything"),
        _guarantee(f"error rate at most {_percent(certificate.risk)}", certificate),
    ]
    chosen = certificate.chosen
    if chosen is None:
        best = min(certificate.candidates, key=lambda candidate: candidate.bound)
        lines.append(
            f"the lowest bound is {_percent(best.bound)}, at {_hundredths(best.threshold)} with {best.accepted:,}"
            f" responses, {best.errors:,} wrong; allow a higher --risk or give more questions"
        )
    else:
        rate = "" if chosen.error_rate is None else f", {_percent(chosen.error_rate)} of them wrong"
        answered = _percent(certificate.coverage)
        lines.append(f"answers {answered} of these questions{rate}; the bound is {_percent(chosen.bound)}")
    lines.append(f"a perfect ranking of the same accuracy could answer {_percent(perfect)}")
    if held_out:
        lines.append(
            f"held out, mean ± sd over {splits} random halves: answers {_spread(held_out['coverage'])},"
            f" {_spread(held_out['risk'])} of them wrong"
        )
    return [*lines, "", *_table(("answered", "wrong"), certificate)]


def route_lines(route: Route, held_out: Mapping[str, Spread | None], splits: int) -> list[str]:
    """What may stay local, here and on held-out halves."""
    outcome, saved = route.outcome, route.outcome.tokens_saved
    tokens = "" if saved is None else f", {_percent(saved)} of the strong model's tokens saved"
    lines = [
        _verdict(route.threshold, "keep", "defer everything"),
        _guarantee(f"accuracy lost at most {_percent(route.epsilon)}", route),
        f"these questions: {_percent(outcome.deferred)} deferred{tokens}, accuracy {_percent(outcome.accuracy)}",
        f"  lost: {_percent(outcome.gross_loss)} gross, {_percent(outcome.net_loss)} net of what the local model gains",
    ]
    if held_out:
        each = {name: _spread(spread) for name, spread in held_out.items()}
        lines += [
            f"held out, mean ± sd over {splits} random halves:",
            f"  deferred {each['deferred']}, strong tokens saved {each['tokens_saved']}, accuracy {each['accuracy']},"
            f" lost {each['gross_loss']} gross, {each['net_loss']} net",
        ]
    return [*lines, "", *_table(("kept", "events"), route)]


def policy_line(path: str, policy: Policy) -> str:
    """Where the policy is and how to act on it."""
    strong = " --strong URL" if policy.needs_strong else ""
    does = "abstains" if policy.otherwise == ABSTAIN else "defers"
    return f"policy {policy.id}: {path} (calibsft serve --policy {path} --local URL{strong} answers or {does} by it)"


def _verdict(threshold: int | None, verb: str, nothing: str) -> str:
    if threshold is None:
        return f"nothing can be certified: {nothing}"
    return f"{verb} where the confidence is at least {_hundredths(threshold)}"


def _guarantee(bound: str, decision: Certificate | Route) -> str:
    wanted = "" if decision.threshold is not None else "wanted: "
    certainty = f"with probability {1 - decision.delta:g} or more"
    return f"{wanted}{bound} {certainty} ({decision.procedure}, {decision.questions:,} questions)"


def _table(counts: tuple[str, str], decision: Certificate | Route) -> list[str]:
    """Some of the candidates: threshold, both counts, rate, bound, and whether it is certified."""
    chosen = () if decision.threshold is None else (decision.threshold, decision.threshold - 1)
    cells = [("threshold", *counts, "rate", "bound", "certified")]
    for at, n, k, rate, bound, passes in map(astuple, decision.candidates):
        if at % SHOWN_EVERY == 0 or at in chosen:
            certified = "yes" if passes else "no"
            cells.append((_hundredths(at), f"{n:,}", f"{k:,}", _percent(rate), _percent(bound), certified))
    return table_lines(cells, left=(5,))


def _hundredths(threshold: int) -> str:
    return f"{threshold // 100}.{threshold % 100:02d}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _spread(spread: Spread | None) -> str:
    return "–" if spread is None else f"{100 * spread.mean:.1f} ± {100 * spread.sd:.1f} %"
