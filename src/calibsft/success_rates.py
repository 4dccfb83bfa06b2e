"""Success rates: how often each question was answered rightly, for training targets and RL.

A success rate is over all responses to a question, malformed ones too. A truncated response counts as wrong, unless the
model was made to answer (`rollout.force_answer`); then that answer counts.
"""

import polars as pl

from calibsft.progress import warn
from calibsft.schema import QUESTION_KEYS, Ending


def ending_column(forced: pl.Expr | None = None) -> pl.Expr:
    """How each response ended, from its column `finished` and whether the model was made to answer."""
    cut = pl.lit(Ending.TRUNCATED.value)
    if forced is not None:
        cut = pl.when(forced).then(pl.lit(Ending.FORCED.value)).otherwise(cut)
    return pl.when("finished").then(pl.lit(Ending.FINISHED.value)).otherwise(cut).alias("ending")


def rate_questions(labels: pl.DataFrame, source: str) -> pl.DataFrame:
    """Add to every response how many (`k`) of the `n` responses to its question are correct.

    Questions with an ungraded response are left out, with a warning about `source`.

    Parameters
    ----------
    labels : columns dataset, question_id, correct (null if ungraded), ending. In the result, `correct` is False for
        truncated responses.
    """
    if labels["correct"].null_count():
        ungraded = pl.col("correct").is_null().any().over(QUESTION_KEYS)
        lost = labels.filter(ungraded).n_unique(QUESTION_KEYS)
        warn(f"{source}: {lost} questions have ungraded responses and are left out")
        labels = labels.filter(~ungraded)
    correct = pl.col("correct") & (pl.col("ending") != Ending.TRUNCATED.value)
    return labels.with_columns(
        correct=correct,
        k=correct.sum().over(QUESTION_KEYS).cast(pl.Int64),
        n=pl.len().over(QUESTION_KEYS).cast(pl.Int64),
    )


def ending_lines(endings: dict[str, int]) -> list[str]:
    """How truncated responses count, one line for each way; empty if all responses finished."""
    counted = {
        Ending.TRUNCATED: "truncated responses count as wrong",
        Ending.FORCED: "truncated responses count by the answer that the model was then made to give",
    }
    return [f"success rates: {words} ({endings[e]:,})" for e, words in counted.items() if endings.get(e)]


def count_endings(labels: pl.DataFrame) -> dict[str, int]:
    """How many responses ended in each way."""
    return dict(sorted(labels["ending"].value_counts().iter_rows()))
