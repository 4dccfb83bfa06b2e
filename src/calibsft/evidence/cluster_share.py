"""Evidence `cluster-share`: the share of a question's responses whose text means the same.

Responses are embedded. Two with a cosine similarity of at least `similarity` are linked, and a cluster is a connected
component of links. Equal texts are always linked. Does not look at answers.
"""

from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.evidence.context import Context
from calibsft.evidence.evidence import EXACT, Evidence, exact_column
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.schema import QUESTION_KEYS


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    texts = rows["response"].unique(maintain_order=True).to_list()
    scale = len(rows) / max(len(texts), 1)
    vectors_N_D = context.embedder.embed(texts, lambda done: context.report(int(done * scale)))
    position = {text: i for i, text in enumerate(texts)}
    shares: dict[int, Fraction] = {}
    for samples in rows.with_row_index("row").partition_by(QUESTION_KEYS):
        at = [position[text] for text in samples["response"]]
        shares |= zip(
            samples["row"], cluster_shares(vectors_N_D, at, context.settings.similarity), strict=True
        )
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
    return f"{settings.embedding_model} (cosine from {settings.similarity:g})"


CLUSTER_SHARE = Evidence(
    "cluster-share", 1, "share of the question's responses that mean the same", EXACT, measure, instrument
)
