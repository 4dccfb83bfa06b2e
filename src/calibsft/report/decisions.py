"""Decisions as plain text for a terminal: what was certified, what it does, and the table it comes from."""

from collections.abc import Mapping
from dataclasses import astuple

from calibsft.decisions import Certificate, Needed, Route, Selection, Spread
from calibsft.decisions.guarantees import HIGH_PROBABILITY, promise
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
            f"the lowest bound is {_percent(best.bound)}, at {best.threshold:.2f} with {best.accepted:,}"
            f" responses, {best.errors:,} wrong"
        )
        lines.append(_needed(certificate.needed, "--risk"))
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
    if route.needed is not None:
        lines.append(_needed(route.needed, "--epsilon"))
    if held_out:
        each = {name: _spread(spread) for name, spread in held_out.items()}
        lines += [
            f"held out, mean ± sd over {splits} random halves:",
            f"  deferred {each['deferred']}, strong tokens saved {each['tokens_saved']}, accuracy {each['accuracy']},"
            f" lost {each['gross_loss']} gross, {each['net_loss']} net",
        ]
    return [*lines, "", *_table(("kept", "events"), route)]


def selection_lines(selection: Selection, path: str) -> list[str]:
    """Which answers of a batch are kept, and what that promises."""
    kept, count = int(selection.keep.sum()), len(selection.keep)
    what = f"at most {_percent(selection.risk)} of the kept answers are wrong"
    lines = [
        f"keep {kept:,} of {count:,} answers: {path}",
        f"{promise(what, selection.guarantee, None)} ({selection.labelled:,} labelled answers, {selection.wrong:,} wrong)",
    ]
    if selection.lowest is None:
        return [*lines, "nothing is sure enough; give more labelled answers or allow a higher --risk"]
    return [*lines, f"the lowest confidence kept is {selection.lowest:g}; another batch has another"]


def policy_line(path: str, policy: Policy) -> str:
    """Where the policy is and how to act on it."""
    strong = " --strong URL" if policy.needs_strong else ""
    does = "abstains" if policy.otherwise == ABSTAIN else "defers"
    return f"policy {policy.id}: {path}: {policy.promise} (calibsft serve --policy {path} --local URL{strong} answers or {does} by it)"


def slice_lines(policy: Policy) -> list[str]:
    """What the threshold does to parts of the responses; nothing if there is one part or none."""
    if len(policy.slices) < 2:
        return []
    acted_on, events = ("answered", "wrong") if policy.otherwise == ABSTAIN else ("kept", "events")
    cells: list[tuple[str, ...]] = [("part", "responses", acted_on, events, "rate")]
    for one in policy.slices:
        counts = (one.responses, one.acted_on, one.events)
        cells.append((f"{one.column}={one.value}", *(f"{count:,}" for count in counts), _percent(one.rate)))
    return ["", *table_lines(cells, left=(0,))]


def _verdict(threshold: float | None, verb: str, nothing: str) -> str:
    if threshold is None:
        return f"nothing can be certified: {nothing}"
    return f"{verb} where the confidence is at least {threshold:.2f}"


def _guarantee(bound: str, decision: Certificate | Route) -> str:
    wanted = "" if decision.threshold is not None else "wanted: "
    guarantee = decision.guarantee if isinstance(decision, Route) else HIGH_PROBABILITY
    kept = promise(bound, guarantee, decision.delta)
    return f"{wanted}{kept} ({decision.procedure}, {decision.questions:,} questions)"


def _needed(needed: Needed | None, option: str) -> str:
    """What would be needed to certify anything."""
    assert needed is not None
    budget = "no budget" if needed.budget is None else f"{option} {needed.budget:g}"
    if needed.questions is None:
        return f"these questions allow {budget}; no number of questions like these would do, since no threshold has so low a rate"
    return f"these questions allow {budget}; the budget asked for takes about {needed.questions:,} questions like these"


def _table(counts: tuple[str, str], decision: Certificate | Route) -> list[str]:
    """Some of the candidates: threshold, both counts, rate, bound, and whether it is certified."""
    chosen = () if decision.threshold is None else (round(100 * decision.threshold),)
    cells = [("threshold", *counts, "rate", "bound", "certified")]
    rows = [astuple(candidate) for candidate in decision.candidates]
    for at, (threshold, n, k, rate, bound, passes) in enumerate(rows):
        if at % SHOWN_EVERY == 0 or at in chosen or at + 1 in chosen:
            certified = "yes" if passes else "no"
            cells.append((f"{threshold:.2f}", f"{n:,}", f"{k:,}", _percent(rate), _percent(bound), certified))
    return table_lines(cells, left=(5,))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _spread(spread: Spread | None) -> str:
    return "–" if spread is None else f"{100 * spread.mean:.1f} ± {100 * spread.sd:.1f} %"
