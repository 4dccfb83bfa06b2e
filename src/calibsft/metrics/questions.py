"""Does a question's mean confidence match how often it is solved: Cap-Brier, over groups of responses.

Needs the question of each response; metrics that do not are functions of a `table`.
"""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from calibsft.metrics.metric import Metric, PerQuestion
from calibsft.metrics.table import FloatArray

# Sums of floats depend on their order; sums of whole multiples of 2**-60 do not.
UNIT = 2**60


def question_sums(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """For each question, identified by `keys`: its number of responses, `n`, and its `gap`.

    The gap is the sum of confidences minus the number of correct responses, in units of 2**-60. `rows` has `confidence` in
    [0, 1] and `correct`. Sums over parts of the rows can be added up.
    """
    stated = (pl.col("confidence") * float(UNIT)).cast(pl.Int128)
    gap = stated - pl.col("correct").cast(pl.Int128) * UNIT
    sums = rows.lazy().group_by(keys).agg(n=pl.len().cast(pl.Int64), gap=gap.sum())
    return sums.collect(engine="streaming")  # three times as fast with many questions


def mean_over_questions(of: Callable[[FloatArray], FloatArray], questions: pl.DataFrame) -> float:
    """The mean of a function of the questions' gaps: mean confidence minus success rate.

    `questions` is from `question_sums`. Every question counts the same, however many responses it has.
    """
    gaps = (questions["gap"].cast(pl.Float64) / float(UNIT) / questions["n"]).to_numpy()
    return float(np.sort(of(gaps)).sum()) / len(gaps)


def capability_brier(gaps: FloatArray) -> FloatArray:
    """Mean over questions of (mean confidence - success rate)², in [0, 1]; 0 is best.

    With one response to each question it is the Brier score.
    """
    return gaps**2


CAP_BRIER = Metric("cap_brier", "Cap-Brier", "lower", of=PerQuestion(capability_brier))
