"""What would be needed where nothing is certified: a larger budget, or more questions of the same kind.

Both are estimates from the same counts, for planning; certify again with the questions that were gathered.
"""

from dataclasses import dataclass

from calibsft.decisions.table import ThresholdTable
from calibsft.metrics.table import IntArray

STEP = 1000
MOST_QUESTIONS = 10**8


@dataclass(frozen=True, slots=True)
class Needed:
    """What would be needed to certify something.

    Attributes
    ----------
    budget : the smallest budget, in thousandths, for which these questions certify a threshold; None if there is none.
    questions : about how many questions like these the budget asked for takes; None if no number of them would do,
        because no threshold has so low a rate.
    """

    budget: float | None
    questions: int | None


def needed(table: ThresholdTable, budget: float, accepted: IntArray, questions: int) -> Needed | None:
    """What certifies a threshold that accepts anything; None if `table` certifies one for `budget`.

    Parameters
    ----------
    accepted : how many responses every threshold accepts.
    questions : how many questions the table counts.
    """
    if _accepts(table, budget, accepted):
        return None
    return Needed(_smallest_budget(table, accepted), _questions(table, budget, accepted, questions))


def _accepts(table: ThresholdTable, budget: float, accepted: IntArray) -> bool:
    lowest = table.lowest(budget)
    return lowest is not None and bool(accepted[lowest])


def _smallest_budget(table: ThresholdTable, accepted: IntArray) -> float | None:
    """By bisection over thousandths, then upwards, since a start that is chosen by the data may jump."""
    low, high = 0, STEP
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if not _accepts(table, middle / STEP, accepted) else (low, middle)
    certified = (k / STEP for k in range(high, STEP) if _accepts(table, k / STEP, accepted))
    return next(certified, None)


def _questions(table: ThresholdTable, budget: float, accepted: IntArray, questions: int) -> int | None:
    """By doubling and bisection; rates stay as they are, so a few more or fewer may do."""
    few, many = questions, 2 * questions
    while not _accepts(table.times(many / questions), budget, accepted):
        few, many = many, 2 * many
        if few > MOST_QUESTIONS:
            return None
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        enough = _accepts(table.times(middle / questions), budget, accepted)
        few, many = (few, middle) if enough else (middle, many)
    return many
