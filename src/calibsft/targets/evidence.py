"""The evidence that a target needs, joined to the responses by their keys.

Evidence is made by `calibsft evidence`, one or two columns for each name; nothing here measures anything.
"""

from typing import Any

import polars as pl

from calibsft.errors import InputError
from calibsft.schema import KEYS
from calibsft.targets.target import Target

# Counts and scores are exact: so many (`_k`) of so many (`_n`), scores in tenths.
COLUMNS = {
    "mean-logprob": ("mean-logprob",),
    "answer-votes": ("answer-votes_k", "answer-votes_n"),
    "cluster-share": ("cluster-share_k", "cluster-share_n"),
    "judge-score": ("judge-score_k",),
}


def with_evidence(
    rows: pl.DataFrame, target: Target[Any], evidence: pl.LazyFrame | None, source: str
) -> pl.DataFrame:
    """`rows` with the columns of the evidence that `target` needs, which must cover every row."""
    if not target.evidence:
        return rows
    given = pl.LazyFrame() if evidence is None else evidence
    known = set(given.collect_schema())
    missing = [name for name in target.evidence if not known.issuperset(COLUMNS[name])]
    if missing:
        raise InputError(
            f"{source}: the target {target.name} needs the evidence {', '.join(missing)}; make it with calibsft evidence"
        )
    columns = [column for name in target.evidence for column in COLUMNS[name]]
    measured = given.select(*KEYS, *columns)
    found = rows.lazy().join(measured, on=KEYS, validate="1:1", maintain_order="left").collect()
    if len(found) < len(rows):
        raise InputError(
            f"{source}: the evidence for the target {target.name} covers {len(found)} of {len(rows)} responses; make it for"
            " these responses with calibsft evidence"
        )
    return found
