"""Is the answer right? One verifier for training data, rewards and evaluation.

`grade` grades one answer, `grade_all` many, `VerifierPool` many with limits of your choice. A grader is one file with
one `Grader`, listed in `GRADERS`. Model text is never executed, and a hostile answer can spoil only its own verdict.
Does not find the answer in a response: that is `calibsft.responses`.
"""

from collections.abc import Sequence
from functools import cache

import calibsft.unix  # noqa: F401 - grading forks and sets limits, as Unix does
from calibsft.callable_room import make_callable
from calibsft.schema import Grade
from calibsft.verify.alias import JUDGE
from calibsft.verify.contains import CONTAINS
from calibsft.verify.drop import DROP
from calibsft.verify.exact import EXACT
from calibsft.verify.grader import GradeItem, Grader, OnProgress
from calibsft.verify.hotpotqa import HOTPOTQA
from calibsft.verify.livebench import (
    LIVEBENCH,
    LIVEBENCH_SPATIAL,
    LIVEBENCH_WEB_OF_LIES,
    LIVEBENCH_ZEBRA,
    LIVEBENCH_ZEBRA_WORD,
)
from calibsft.verify.math import MATH
from calibsft.verify.pool import VerifierPool
from calibsft.verify.sets import SET
from calibsft.verify.text import TEXT

__all__ = ["GRADERS", "Grade", "GradeItem", "Grader", "VerifierPool", "grade", "grade_all"]

GRADERS: dict[str, Grader] = {
    "exact": EXACT,
    "math": MATH,
    "text": TEXT,
    "hotpotqa": HOTPOTQA,
    "contains": CONTAINS,
    "set": SET,
    "drop": DROP,
    "livebench": LIVEBENCH,
    "livebench-web-of-lies": LIVEBENCH_WEB_OF_LIES,
    "livebench-zebra": LIVEBENCH_ZEBRA,
    "livebench-zebra-word": LIVEBENCH_ZEBRA_WORD,
    "livebench-spatial": LIVEBENCH_SPATIAL,
    "judge": JUDGE,
}


def grade(
    kind: str, gold: str | Sequence[str], answer: str, *, tolerance: str = "", question: str = ""
) -> Grade:
    """Grade one answer.

    Parameters
    ----------
    kind
        A name from `GRADERS`; another one raises `InputError`.
    gold
        The reference, or a list of aliases of which any may match (for `set`: the members of the set).
    answer
        The answer alone, without the reasoning or the tags around it.
    tolerance
        Absolute error that a number may have, for example "0.01"; several, separated by commas, belong to the gold's
        values in turn. Only `math` reads it.
    question
        What was asked; only a judge reads it.

    Returns
    -------
    Grade
        `CORRECT` if any alias matches; else the most informative of the aliases' grades, `UNPARSED_GOLD` only if all
        golds are unreadable. The first item that needs computer algebra starts a worker process, which takes about a
        second. An item that needs more than 0.8 seconds of processor time is a `TIMEOUT`.

    Examples
    --------
    >>> grade("math", "1/2", "0.5")
    <Grade.CORRECT: 'correct'>
    """
    golds = gold if isinstance(gold, str) else tuple(gold)
    return _shared_pool().grade_all([GradeItem(kind, golds, answer, tolerance, question)])[0]


def grade_all(items: Sequence[GradeItem], on_progress: OnProgress | None = None) -> list[Grade]:
    """Grade many answers on all processors, in order; see `VerifierPool.grade_all`."""
    with VerifierPool() as pool:
        return pool.grade_all(items, on_progress)


@cache
def _shared_pool() -> VerifierPool:
    # Its processes end with this process at the latest.
    return VerifierPool(workers=1)


make_callable(__name__)
