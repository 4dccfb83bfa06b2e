"""A diagnosis of a prior as plain text for a terminal: the verdict first, then the figures that it rests on."""

import textwrap

from calibsft.prior import Diagnosis
from calibsft.prior.floor import NEAR, Floor
from calibsft.prior.gradient import RARE, Gradient
from calibsft.prior.verdict import percent
from calibsft.text_table import table_lines

WIDTH = 100
BAR = 40
HEADLINES = {
    True: "CalibSFT is worth it before RL:",
    False: "CalibSFT is not needed before RL:",
    None: "It is not known whether CalibSFT is worth it before RL:",
}
TITLES = ("", "n", "support", "eff.supp.", "Top-1", "Top-3", "< 0.5", "mean c", "most frequent")
SHOWN_VALUES = 8


def diagnosis_lines(found: Diagnosis) -> list[str]:
    """The verdict with its reasons, concentration, a histogram, and Propositions 1 and 2."""
    lines = [HEADLINES[found.verdict.worth_it]]
    for mark, sentences in (("- ", found.verdict.reasons), ("note: ", found.verdict.notes)):
        for sentence in sentences:
            lines += _wrapped(sentence, mark)
    parts = [_concentration_lines(found), _histogram_lines(found), _gradient_lines(found.gradient)]
    if found.floor:
        parts.append(_floor_lines(found.floor))
    return [*lines, *(line for part in parts for line in ("", *part))]


def _wrapped(text: str, mark: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent="  ")


def _concentration_lines(found: Diagnosis) -> list[str]:
    ranks = "-" if found.auroc is None else f"{found.auroc:.4f}"
    left_out = f", {percent(found.unreadable)} without a readable confidence" if found.unreadable else ""
    left_out += f", {percent(found.malformed)} malformed" if found.malformed else ""
    summary = (
        f"{found.n:,} responses{left_out}; accuracy {found.everything.accuracy:.4f}, AUROC {ranks},"
        f" Brier {found.brier:.4f}, ECE {found.ece:.4f}"
    )
    parts = {"all": found.everything, "correct": found.correct, "incorrect": found.incorrect}
    rows: list[tuple[str, ...]] = [TITLES]
    for name, part in parts.items():
        if part:
            counts = (f"{part.n:,}", f"{part.support:,}", f"{part.effective_support:.1f}")
            shares = (part.top1, part.top3, part.below_half, part.mean_confidence)
            often = ", ".join(f"{value.confidence:.2f} ({percent(value.share)})" for value in part.top)
            rows.append((name, *counts, *(f"{share:.4f}" for share in shares), often))
    return [*_wrapped(summary), *table_lines(rows, left=(0, len(TITLES) - 1))]


def _histogram_lines(found: Diagnosis) -> list[str]:
    rows = [("confidence", "share", "right", "")]
    largest = max(part.count for part in found.bins)
    for part in found.bins:
        end = "]" if part is found.bins[-1] else ")"
        right = "-" if part.accuracy is None else percent(part.accuracy)
        bar = "█" * round(BAR * part.count / largest)
        rows.append((f"[{part.low:.1f}, {part.high:.1f}{end}", percent(part.count / found.n), right, bar))
    return table_lines(rows, left=(0, 3))


def _gradient_lines(gradient: Gradient) -> list[str]:
    per = f", mean over {gradient.contexts:,} questions" if gradient.context == "question" else ""
    values = f"{gradient.format} format" if gradient.format else "values that are stated"
    rare = "-" if gradient.rare_share is None else percent(gradient.rare_share)
    total = (
        f"Gradient of RL (Proposition 1{per}): |∇J| {gradient.norm:.4f}, at most 2εΔ = {gradient.norm_bound:.4f}"
        f" (ε {gradient.epsilon:.4f}, Δ {gradient.spread:.4f})"
    )
    rows = [["value", "π", "u", "π(u − J)", "πΔ"]]
    often = sorted(gradient.values, key=lambda value: -value.probability)[:SHOWN_VALUES]
    for value in sorted(often, key=lambda value: value.confidence):
        numbers = (value.probability, value.reward, value.gradient, value.bound)
        rows.append([f"{value.confidence:.2f}", *(f"{number:.4f}" for number in numbers)])
    others = len(gradient.values) - len(often)
    return [
        *_wrapped(total),
        f"{gradient.rare} of {gradient.format_values} values ({values}) have π < {RARE} and get {rare} of it",
        *table_lines(rows, left=()),
        *([f"… {others} more that are stated"] if others else []),
    ]


def _floor_lines(floor: Floor) -> list[str]:
    left_out = f", {floor.left_out:,} with one response left out" if floor.left_out else ""
    unsure = "" if floor.reliable else "; NOT RELIABLE with so few"
    title = (
        f"Brier score against the success rate q of {floor.questions:,} questions (Proposition 2), {floor.responses:.1f}"
        f" responses each{left_out}{unsure}"
    )
    rest = (
        f"noise of q {floor.noise:.4f}; what the confidences really lose beyond p(1 − p): {floor.excess:.4f};"
        f" groups of {floor.group_size} with a value within {NEAR} of q: {percent(floor.reach)}"
    )
    bounds = {
        "stated confidence to q, (c − q)²": floor.distance,
        "floor, δ²(1 − m) at the best δ": floor.floor,
        "floor of the values that are ever stated": floor.support_floor,
        f"floor of the best of {floor.group_size}, δ²(1 − m)^{floor.group_size}": floor.best_of_group,
    }
    rows = [(name, f"{bound.plain:.4f}", f"{bound.less_noise:.4f}") for name, bound in bounds.items()]
    return [*_wrapped(title), *table_lines([("", "plain", "less noise"), *rows]), *_wrapped(rest)]
