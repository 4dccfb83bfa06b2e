"""Evidence `mean-logprob`: how probable the response was to the model that wrote it.

The mean log-probability of the sampled tokens at temperature 1, in nats, as the rollouts recorded it. Null where some
tokens were not sampled. Does not ask the model again.
"""

import polars as pl

from calibsft.evidence.context import Context
from calibsft.evidence.evidence import Evidence


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    return rows["mean_logprob"]


MEAN_LOGPROB = Evidence(
    "mean-logprob", 1, "mean token log-probability under the model that sampled it", pl.Float32, measure
)
