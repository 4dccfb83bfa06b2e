"""Does a question's mean confidence match how often it is solved: Cap-Brier, over groups of responses.

Needs to know which responses answer the same question; everything else about them is in `table`.
"""

import polars as pl

from calibsft.metrics.table import FloatArray


def capability_brier(confidence: FloatArray, correct: FloatArray, question: pl.Series) -> tuple[float, int]:
    """Mean over questions of (mean confidence - success rate)², in [0, 1], 0 being best; and how many there are.

    Every question counts the same, however many responses it has. With one response each it is the Brier score.
    """
    rows = pl.DataFrame({"question": question, "gap": confidence - correct})
    gaps = rows.group_by("question").agg(pl.col("gap").mean())["gap"] ** 2
    return float(gaps.sort().sum()) / len(gaps), len(
        gaps
    )  # groups come in any order, and sums of floats depend on it
