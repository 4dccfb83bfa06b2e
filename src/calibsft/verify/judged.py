"""Grade answers by a judge model: the grader `judge`, if a model is configured.

Three kinds of answers are graded without asking: an empty one, one whose golds are empty, and one that is an alias after
normalisation (`alias`), to which any judge says yes. Does not know what is asked, and how: that is `calibsft.judge`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calibsft.judge.judge import Judge, load_judge
from calibsft.judge.rubric import JudgeItem
from calibsft.judge.untrusted import without_confidence
from calibsft.judge.yes_no import YES_NO
from calibsft.schema import Grade
from calibsft.verify.alias import JUDGE, distinct
from calibsft.verify.grader import GradeItem, OnProgress

if TYPE_CHECKING:
    from calibsft.judge.settings import JudgeSettings

# Raise the rubric's version also if other answers are graded without asking.
VERSION = YES_NO.version
_GRADES = {True: Grade.CORRECT, False: Grade.INCORRECT, None: Grade.UNJUDGED}


class AnswerJudge:
    """Grades by asking a judge; its `name` says that exact aliases are not asked about.

    After a reply other than yes or no the answer is `UNJUDGED`, which is unscored.
    """

    def __init__(self, judge: Judge[bool]) -> None:
        self._judge = judge
        self.name = f"{JUDGE.name}-{VERSION} {judge.model.name} (exact aliases unasked)"

    def grade_all(self, items: Sequence[GradeItem], on_progress: OnProgress | None = None) -> list[Grade]:
        """The grades of `items`, in order; `on_progress` takes the numbers of settled and of all items."""
        unasked = {item: grade_unasked(item) for item in dict.fromkeys(items)}
        asked = [item for item in items if unasked[item] is None]
        before, total = len(items) - len(asked), len(items)

        def report(settled: int) -> None:
            if on_progress:
                on_progress(before + settled, total)

        if before:
            report(0)
        verdicts = self._judge.judge_all([judge_item(item) for item in asked], report, total)
        judged = {item: _GRADES[verdict] for item, verdict in zip(asked, verdicts, strict=True)}
        return [unasked[item] or judged[item] for item in items]


def grade_unasked(item: GradeItem) -> Grade | None:
    """The grade of an item with nothing to compare, or with an exact alias; None if a judge must be asked."""
    grade = JUDGE.grade(replace(item, answer=without_confidence(item.answer)))
    return None if grade in (Grade.INCORRECT, Grade.TOO_LARGE) else grade


def judge_item(item: GradeItem) -> JudgeItem:
    """The item as a judge sees it: each alias once."""
    return JudgeItem(item.question, item.answer, distinct(item.golds))


def load_answer_judge(
    settings: "JudgeSettings", cache: Path | None, device: str = "auto", dtype: str = "auto"
) -> AnswerJudge | None:
    """The judge of answers that the settings name, None if they name no model; see `load_judge`."""
    judge = load_judge(settings, YES_NO, cache, device, dtype)
    return AnswerJudge(judge) if judge else None
