"""Evidence `cluster-share`: the share of a question's responses whose text means the same.

Responses are embedded. Two with a cosine similarity of at least `similarity` are linked, and a cluster is a connected
component of links. Equal texts are always linked. Answers decide nothing but the similarity, where it is left to be chosen.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.evidence.context import Context
from calibsft.evidence.evidence import EXACT, Evidence, exact_column
from calibsft.evidence.settings import AUTO, EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.schema import QUESTION_KEYS


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    vectors_N_D, at = context.embed(rows["response"])
    numbered = rows.select(*QUESTION_KEYS, at=pl.Series(at)).with_row_index("row")
    shares: dict[int, Fraction] = {}
    for samples in numbered.partition_by(QUESTION_KEYS):
        found = cluster_shares(vectors_N_D, samples["at"].to_list(), context.similarity)
        shares |= zip(samples["row"], found, strict=True)
    return exact_column(shares[row] for row in range(len(rows)))


def cluster_shares(vectors_N_D: NDArray[np.floating], at: list[int], similarity: float) -> list[Fraction]:
    """The share of each text's cluster among the texts at the positions `at`, which may be repeated."""
    from scipy.sparse.csgraph import connected_components

    distinct, place = np.unique(at, return_inverse=True)
    unit_K_D = vectors_N_D[distinct]
    _, labels = connected_components(unit_K_D @ unit_K_D.T >= similarity, directed=False)
    sizes = np.bincount(labels[place])
    return [Fraction(int(sizes[label]), len(at)) for label in labels[place]]


def instrument(settings: EvidenceSettings, judge: JudgeSettings) -> str:
    if settings.embedding_model is None:
        raise InputError(
            "the evidence cluster-share needs a model that embeds responses; name one as evidence.embedding_model"
        )
    given = settings.similarity
    written = given if isinstance(given, str) else f"{given:g}"
    return f"{settings.embedding_model} (cosine from {written})"


def facts(context: Context) -> dict[str, Any]:
    return {"similarity": context.similarity} if context.settings.similarity == AUTO else {}


CLUSTER_SHARE = Evidence(
    "cluster-share",
    1,
    "share of the question's responses that mean the same",
    EXACT,
    measure,
    instrument,
    facts=facts,
)
