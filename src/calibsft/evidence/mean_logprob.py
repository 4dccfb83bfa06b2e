"""Evidence `mean-logprob`: the mean log-probability of the response's tokens under the model that sampled it.

At temperature 1, in nats, as the rollouts or the user's file have it. Null if some tokens were not sampled. Does not run the model.
"""

import polars as pl

from calibsft.evidence.context import Context
from calibsft.evidence.evidence import Evidence


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    return rows["mean_logprob"]


MEAN_LOGPROB = Evidence(
    "mean-logprob",
    1,
    "mean token log-probability under the model that sampled it",
    pl.Float32,
    measure,
    columns=("mean_logprob",),
)
