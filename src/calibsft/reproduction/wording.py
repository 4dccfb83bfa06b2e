"""What a check compares, and how the checks of a claim came out, in words."""

import re
from collections import Counter

from calibsft.metrics.registry import METRICS
from calibsft.reproduction.claims import Check
from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.study import SPLITS
from calibsft.reproduction.verdicts import Outcome, Verdict

# Parts of the names of columns that no table shows.
WORDS = {
    "below_half": "below 0.5",
    "count": "number",
    "gain_in_sd": "gain in standard deviations",
    "gap": "|confidence − Pass@1|",
    "other": "elsewhere",
    "overconfident": "over-confident",
    "pairs": "all pairs",
    "sd": "standard deviation",
    "seeds_better": "seeds with a gain",
    "six": "of the six",
}
NUMBER = re.compile(r"[0-9.]+")
# A dot parts the words of a column's name, but for the one in a number: eps0.01.loss.
DOT = re.compile(r"\.(?!\d)")


def comparison(check: Check, experiment: Experiment | None) -> str:
    """A check as in "ID ECE: RLCR + CalibSFT below RLCR"; what both sides share is named once, before the colon."""
    words = _compared(check, experiment)
    return words[:1].upper() + words[1:] if words[:1].isascii() else words  # ε stays small


def _compared(check: Check, experiment: Experiment | None) -> str:
    titles = {column.name: column.title for column in experiment.columns} if experiment else {}
    row, column = _row(check.left[0]), titles.get(check.left[1]) or column_words(check.left[1])
    close = f"within {check.margin:g} of" if check.margin else "equal to"
    how = {"below": "below", "above": "above", "close": close}[check.relation]
    how += f" {check.times:g} ×" if check.times != 1 else ""
    if isinstance(check.right, float):
        return f"{column}: {row} {how} {check.right:g}"
    other_row, other = _row(check.right[0]), titles.get(check.right[1]) or column_words(check.right[1])
    if other == column:
        return f"{column}: {row} {how} {other_row}"
    if other_row == row:
        return f"{row}: {column} {how} {other}"
    return f"{column} of {row} {how} {other} of {other_row}"


def _row(name: str) -> str:
    """The rows of the mixing weight are called by their number alone."""
    return f"λ = {name}" if NUMBER.fullmatch(name) else name


def column_words(name: str) -> str:
    """The name of a column that no table shows, as in "ID ECE standard deviation" for id.ece.sd."""
    return " ".join(_word(part) for part in DOT.split(name))


def _word(part: str) -> str:
    if part in SPLITS:
        return part.upper()
    if part.startswith("eps"):
        return f"ε = {part.removeprefix('eps')}"
    if part in METRICS:
        return METRICS[part].title
    return WORDS.get(part, part.replace("_", " "))


def tally(verdict: Verdict) -> str:
    """How the checks came out, as in "12 of 30 hold, 5 do not, 13 undecided"; empty for a single check."""
    total = len(verdict.checks)
    if total < 2:
        return ""
    counts = Counter(judged.outcome for judged in verdict.checks)
    parts = [f"{counts[Outcome.HOLDS]} of {total} hold"]
    if counts[Outcome.FAILS]:
        parts.append(f"{counts[Outcome.FAILS]} {'does' if counts[Outcome.FAILS] == 1 else 'do'} not")
    parts += [
        f"{counts[outcome]} {outcome.value.removesuffix(' here')}"
        for outcome in (Outcome.UNDECIDED, Outcome.UNTESTABLE)
        if counts[outcome]
    ]
    return ", ".join(parts)
