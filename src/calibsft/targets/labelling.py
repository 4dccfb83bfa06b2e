"""Label responses with a target, and make the table of labels.

Only well-formed responses are labelled, and a target may leave out some of them.
"""

from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.responses.formats import Format
from calibsft.schema import KEYS, LABEL, STRATUM
from calibsft.table_schemas import LABELS
from calibsft.targets import get_target
from calibsft.targets.evidence import with_evidence
from calibsft.targets.labels import once_per
from calibsft.targets.pool import ROW
from calibsft.targets.settings import TargetSettings


def label_rows(
    rated: pl.DataFrame,
    settings: TargetSettings,
    confidence_format: Format,
    evidence: pl.LazyFrame | None,
    source: str,
) -> pl.DataFrame:
    """The responses that can be trained on, with their exact label and their stratum.

    `rated` are all responses that count, from `rate_questions`, numbered. The strata of some targets depend on the format of
    the training set. The other arguments are those of `build`.
    """
    target = get_target(settings.name)
    kept = rated.filter(pl.col("reason") == "ok")
    labels = target.label(with_evidence(kept, target, evidence, source), settings)
    labelled = kept.hstack(labels).drop_nulls(LABEL)
    strata = once_per(labelled, LABEL, lambda n, d: target.strata(Fraction(n, d), confidence_format), STRATUM)
    return labelled.hstack(strata)


def label_table(rated: pl.DataFrame, labelled: pl.DataFrame, drawn: NDArray[np.int64]) -> pl.DataFrame:
    """The label of every response that counts, and whether it was drawn; sorted by keys.

    `drawn` are rows of `labelled`. Texts that repeat are still categories; `LABELS` has the types of the file.
    """
    marks = np.zeros(len(labelled), dtype=bool)
    marks[drawn] = True
    found = labelled.select(ROW, *LABEL, drawn=pl.Series(marks))
    rows = rated.rename({"k": "successes", "n": "rollouts"}).join(found, on=ROW, how="left")
    return rows.with_columns(pl.col("drawn").fill_null(False)).sort(KEYS).select(*LABELS)
