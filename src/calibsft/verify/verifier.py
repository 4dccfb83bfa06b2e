"""The verifier: one object that grades every kind of answer, by a pool of workers and, if configured, a judge model.

It names the grader of each kind of answer with its version, because a verdict means nothing without that. Does not
read responses (`verdicts` does) and does not decide how answers are compared.
"""

from collections.abc import Callable, Sequence
from typing import Self

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify.alias import JUDGE
from calibsft.verify.grader import GradeItem, OnProgress
from calibsft.verify.judged import VERSION as JUDGE_VERSION
from calibsft.verify.judged import AnswerJudge
from calibsft.verify.pool import VerifierPool, find_grader

WITHOUT_MODEL = " (alias match, no judge model)"


class Verifier:
    """Grades items of any kind; use as a context manager.

    Parameters
    ----------
    judge
        Answers the items of kind `judge`; without one they are matched against their aliases.
    pool
        Grades all other items, and is closed with the verifier; default: a worker per available processor.
    """

    def __init__(self, judge: AnswerJudge | None = None, pool: VerifierPool | None = None) -> None:
        self._judge, self._pool = judge, pool or VerifierPool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.close()

    def grade_all(
        self, items: Sequence[GradeItem], on_progress: Callable[[int], None] | None = None
    ) -> list[Grade]:
        """The grades of `items`, in order; `on_progress` takes how many are settled so far."""

        def after(count: int) -> OnProgress | None:
            return on_progress and (lambda done, _: on_progress(count + done))

        pooled = [item for item in items if self._judge is None or item.kind != JUDGE.name]
        grades = dict(zip(pooled, self._pool.grade_all(pooled, after(0)), strict=True))
        if self._judge and len(pooled) < len(items):
            asked = [item for item in items if item.kind == JUDGE.name]
            grades |= zip(asked, self._judge.grade_all(asked, after(len(pooled))), strict=True)
        return [grades[item] for item in items]

    def is_current(self, name: str) -> bool:
        """Whether the grader that recorded `name` is the one that would grade now."""
        return name == self.name_of(name.split(" ")[0].rpartition("-")[0])

    def name_of(self, kind: str) -> str:
        """The name and version of the grader of `kind`."""
        return self._judge.name if kind == JUDGE.name and self._judge else grader_name(kind)


def grader_name(kind: str) -> str:
    """The name and version of the grader of `kind` if no judge model is configured."""
    grader = find_grader(kind)
    return f"{grader.name}-{grader.version}{WITHOUT_MODEL if kind == JUDGE.name else ''}"


def changed_grader(name: str) -> str | None:
    """The recorded grader and this program's one, as part of a sentence; None if the versions are the same.

    The model of a judge is not compared: it is a setting.
    """
    graded_by = name.split(" ")[0]
    kind = graded_by.rpartition("-")[0]
    by_model = kind == JUDGE.name and not name.endswith(WITHOUT_MODEL)
    try:
        here = f"{kind}-{JUDGE_VERSION if by_model else find_grader(kind).version}"
    except InputError:
        return f"{graded_by}, which this program does not have"
    return None if graded_by == here else f"{graded_by} and this program has {here}"


def grade_item(
    kind: str, golds: Sequence[str], answer: str | None, tolerance: str = "", question: str = ""
) -> GradeItem:
    """The item that grades one response.

    A missing answer is graded as an empty one, which is wrong, so that it does not decide whether the gold is readable.
    Only a judge gets the question: for other graders, equal pairs of gold and answer are then one item.
    """
    return GradeItem(kind, tuple(golds), answer or "", tolerance, question if kind == JUDGE.name else "")
