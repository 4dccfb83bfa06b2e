"""Label responses with a target, and make the table of labels.

Only well-formed responses are labelled, and a target may leave out some of them.
"""

from fractions import Fraction

import polars as pl

from calibsft.errors import unknown_name
from calibsft.responses.formats import Format
from calibsft.schema import KEYS, LABEL, STRATUM
from calibsft.table_schemas import LABELS
from calibsft.targets import TARGETS
from calibsft.targets.evidence import with_evidence
from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings


def label_rows(
    rated: pl.DataFrame,
    settings: TargetSettings,
    confidence_format: Format,
    evidence: pl.LazyFrame | None,
    source: str,
) -> pl.DataFrame:
    """The responses that can be trained on, with their exact label and their stratum.

    Parameters
    ----------
    rated
        All responses that count, from `rate_questions`.
    confidence_format
        The format of the training set, for targets whose strata depend on it.
    evidence, source
        As for `build`.
    """
    if settings.name not in TARGETS:
        unknown_name("target", settings.name, list(TARGETS))
    target = TARGETS[settings.name]
    kept = rated.filter(pl.col("reason") == "ok")
    labels = target.label(with_evidence(kept, target, evidence, source), settings)
    labelled = kept.hstack(labels).drop_nulls(LABEL)
    strata = once_per(labelled, LABEL, lambda n, d: target.strata(Fraction(n, d), confidence_format), STRATUM)
    return labelled.hstack(strata)


def label_table(rated: pl.DataFrame, labelled: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The label of every response that counts, and whether it was drawn; sorted by keys."""
    drawn = chosen.select(KEYS).unique().with_columns(drawn=pl.lit(True))
    found = labelled.select(*KEYS, *LABEL).join(drawn, on=KEYS, how="left")
    rows = rated.rename({"k": "successes", "n": "rollouts"}).join(found, on=KEYS, how="left")
    table = rows.with_columns(pl.col("drawn").fill_null(False)).sort(KEYS)
    return table.select(pl.col(name).cast(kind) for name, kind in LABELS.items())
