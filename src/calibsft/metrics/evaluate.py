"""All metrics of one set of responses, from arrays: the stable Python entry point `calibsft.metrics.evaluate`.

Does not know datasets, unreadable confidences or files: that is `score`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.files.cells import decimals
from calibsft.metrics.questions import mean_over_questions, question_sums
from calibsft.metrics.registry import QUESTION_METRICS, TABLE_METRICS
from calibsft.metrics.result import Metrics
from calibsft.metrics.table import ConfidenceTable

Column: TypeAlias = Sequence[Any] | NDArray[Any] | pl.Series

ECE_CONVENTION = "10 bins, [k/10,(k+1)/10), 1.0 in the last"


def evaluate(confidence: Column, correct: Column, question_id: Column | None = None) -> Metrics:
    """Every metric of one set of responses, as fractions.

    Parameters
    ----------
    confidence : stated confidences in [0, 1], one per response. Numbers only: text is not read here.
    correct : whether each response was right: booleans, or 0 and 1.
    question_id : which question each response answers; ids of any type.

    Returns
    -------
    `n`, the names in `METRICS`, `ece_convention`, and with question ids `questions`, the number of distinct ones. Metrics of
    questions (`cap_brier`) are None without question ids, and `auroc` when only one class occurs.

    Raises
    ------
    InputError : no responses, unequal lengths, or a value out of range; the message names the index.
    """
    stated, right = checked_responses(confidence, correct, question_id)
    table = ConfidenceTable.from_rows(stated, right)
    if question_id is None:
        return metrics_of(table)
    rows = {"question": id_series(question_id), "confidence": decimals(stated), "correct": right.astype(bool)}
    return metrics_of(table, question_sums(pl.DataFrame(rows), ["question"]))


def metrics_of(table: ConfidenceTable, questions: pl.DataFrame | None = None) -> Metrics:
    """Every metric of counted responses; `questions` is from `question_sums`."""
    found: Metrics = {"n": table.responses} | {name: of(table) for name, of in TABLE_METRICS.items()}
    for name, of in QUESTION_METRICS.items():
        found[name] = None if questions is None else mean_over_questions(of, questions)
    found["ece_convention"] = ECE_CONVENTION
    return found if questions is None else found | {"questions": questions.height}


def checked_responses(
    confidence: Column, correct: Column, question_id: Column | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Confidences and correctness as arrays of numbers; a value out of range is refused by its index."""
    stated, right = _numbers("confidence", confidence), _numbers("correct", correct)
    for name, other in (("correct", right), ("question_id", question_id)):
        if other is not None and len(other) != len(stated):
            raise InputError(
                f"confidence has {len(stated)} entries and {name} {len(other)}: index {min(len(stated), len(other))} has no"
                " partner; give one of each per response"
            )
    if len(stated) == 0:
        raise InputError("there are no responses to score; give at least one confidence and its correctness")
    # NaN counts as out of range: every comparison with it is false.
    _refuse("confidence", stated, ~((stated >= 0) & (stated <= 1)), "a number in [0, 1]")
    _refuse("correct", right, ~((right == 0) | (right == 1)), "0 or 1")
    return stated, right


def filled(confidence: Column) -> tuple[Column, NDArray[np.bool_]]:
    """The confidences with 0 for unreadable ones, and which are readable."""
    if isinstance(confidence, pl.Series):
        # A series keeps its precision, which `decimals` needs; one with only nulls has no type to fill.
        typed = confidence.cast(pl.Float64) if confidence.dtype == pl.Null else confidence
        return typed.fill_null(0), typed.is_not_null().to_numpy()
    if isinstance(confidence, np.ndarray) and confidence.dtype != object:
        return confidence, np.ones(len(confidence), dtype=bool)
    read = np.array([value is not None for value in confidence], dtype=bool)
    return confidence if read.all() else [0 if value is None else value for value in confidence], read


def _numbers(name: str, values: Column) -> NDArray[Any]:
    """`values` as a numeric array of its own precision; text is refused (numpy would read '1_0' as 10)."""
    array = values.to_numpy() if isinstance(values, pl.Series) else np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; give one flat list with an entry per response")
    if array.dtype.kind in "biuf":
        return array
    for index, value in enumerate(values):
        if not isinstance(value, Real):
            raise InputError(
                f"{name} at index {index} is {value!r}, not a number; convert it or leave the response out"
            )
    return np.array([float(value) for value in values])


def _refuse(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], wanted: str) -> None:
    if wrong.any():
        index = int(wrong.argmax())
        raise InputError(
            f"{name} at index {index} is {values[index].item()!r}, not {wanted} ({int(wrong.sum())} such"
            " entries); fix it or leave the response out"
        )


def id_series(ids: Column) -> pl.Series:
    """The questions' ids, numbered if polars may have no type for them: in their own order if they have one."""
    if isinstance(ids, pl.Series):
        return ids
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "biuU":
        return pl.Series(ids)
    distinct: Iterable[Any] = dict.fromkeys(ids)
    with suppress(TypeError):  # ids of several types
        distinct = sorted(distinct)
    numbers = {id_: number for number, id_ in enumerate(distinct)}
    # NaN is not equal to itself, so it may be missing among the numbers.
    return pl.Series([numbers.setdefault(id_, len(numbers)) for id_ in ids])
