"""The functions that the task's YAML names: questions, the reading of a response, and its metrics.

lm-eval loads this file by its path and not as a part of the package. Does not ask a judge: answers that
a judge should compare are matched against their aliases.
"""

from collections.abc import Sequence
from functools import partial
from math import nan
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from calibsft.errors import InputError
from calibsft.integrations.one_answer import grade_answer
from calibsft.metrics.registry import TABLE_METRICS
from calibsft.metrics.table import ConfidenceTable
from calibsft.questions import QuestionSettings, asked_questions
from calibsft.responses.formats import get_format, messages
from calibsft.responses.parse import parse
from calibsft.schema import Grade

# The confidence of a response, 0 if it is unreadable, and whether it is right; None if ungraded.
Scored = tuple[float, bool] | None
METRICS = ("accuracy", "brier", "ece", "auroc", "e_aurc")
NAMES = {"accuracy": "pass@1"}


def questions(
    benchmark: str = "", format: str = "probability", data_dir: str | None = None, **others: Any
) -> DatasetDict:
    """The questions of a benchmark or of a file; lm-eval passes its `--metadata` and facts of its own."""
    if not benchmark:
        raise InputError(
            'no questions are named; add --metadata \'{"benchmark": "gsm8k"}\' with a name of `calibsft ls benchmarks`, or'
            " with the path of a file of questions"
        )
    written = get_format(format)
    rows = []
    for question in asked_questions(QuestionSettings(source=benchmark, data_dir=data_dir)):
        system, asked = messages(question.text, written)
        rows.append(
            {
                "system": system["content"],
                "prompt": asked["content"],
                "gold": list(question.golds),
                "kind": question.grader,
                "tolerance": question.tolerance,
                "format": format,
            }
        )
    return DatasetDict(test=Dataset.from_list(rows))


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Scored]:
    """The first response, read and graded, for each metric."""
    parsed = parse(results[0], doc["format"])
    grade = grade_answer(doc["kind"], doc["gold"], parsed.answer, doc["tolerance"])
    scored = (parsed.confidence or 0.0, grade is Grade.CORRECT) if grade.scored else None
    return dict.fromkeys(METRICS, scored)


def _measure(name: str, responses: Sequence[Scored]) -> float:
    """The metric `name`; NaN where it has no value."""
    scored = [one for one in responses if one is not None]
    if not scored:
        return nan
    confidence, correct = zip(*scored, strict=True)
    value = TABLE_METRICS[NAMES.get(name, name)](
        ConfidenceTable.from_rows(np.array(confidence), np.array(correct))
    )
    return nan if value is None else value


accuracy, brier, ece, auroc, e_aurc = (partial(_measure, name) for name in METRICS)
