"""The text of the drawn responses, with their confidence replaced by their label.

Read part by part: only one part and the drawn responses are in memory at a time.
"""

from fractions import Fraction

import polars as pl

from calibsft.errors import InputError
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse, replace_confidence
from calibsft.schema import KEYS, LABEL
from calibsft.table_schemas import TRAINING_ROWS
from calibsft.targets.pool import Pool


def training_rows(
    pool: Pool, chosen: pl.DataFrame, from_format: Format, confidence_format: Format, source: str
) -> pl.DataFrame:
    """The chosen responses as rows of the training set, in their order."""
    texts = read_texts(pool, chosen, from_format, confidence_format)
    if len(texts) < chosen.n_unique(KEYS):
        raise InputError(
            f"{source}: {chosen.n_unique(KEYS) - len(texts)} graded responses are not among the rollouts; give the verdicts on"
            " these rollouts"
        )
    numerator, denominator = (pl.col(name) for name in LABEL)
    rows = chosen.join(texts, on=KEYS, how="left", maintain_order="left").with_columns(
        target=numerator / denominator,
        target_numerator=numerator,
        target_denominator=denominator,
        q=pl.col("k") / pl.col("n"),
        successes="k",
        rollouts="n",
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in TRAINING_ROWS.items())


def read_texts(
    pool: Pool, chosen: pl.DataFrame, from_format: Format, confidence_format: Format
) -> pl.DataFrame:
    """Question, rewritten response and token ids of every chosen response; each response once."""
    wanted = chosen.select(*KEYS, *LABEL).unique(KEYS).lazy()
    parts = (part.join(wanted, on=KEYS, validate="1:1").collect() for part in pool.parts)
    return pl.concat([_rewritten(part, from_format, confidence_format) for part in parts])


def _rewritten(rows: pl.DataFrame, from_format: Format, confidence_format: Format) -> pl.DataFrame:
    labelled = rows.select("response", *LABEL).iter_rows()
    texts = [
        replace_confidence(text, parse(text, from_format), confidence_format.render(Fraction(n, d)))
        for text, n, d in labelled
    ]
    return rows.select(*KEYS, "question", pl.Series("response", texts, pl.String), "token_ids")
