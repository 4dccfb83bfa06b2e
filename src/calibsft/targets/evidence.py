"""The evidence that a target needs, joined to the responses by their keys.

Does not measure evidence: `calibsft evidence` does.
"""

from typing import Any

import polars as pl

from calibsft.errors import InputError
from calibsft.evidence.evidence import EXACT
from calibsft.schema import KEYS
from calibsft.targets.target import Target


def with_evidence(
    rows: pl.DataFrame, target: Target[Any], evidence: pl.LazyFrame | None, source: str
) -> pl.DataFrame:
    """`rows` with the evidence that `target` needs; it must cover every row."""
    if not target.evidence:
        return rows
    given = pl.LazyFrame() if evidence is None else evidence
    known = given.collect_schema()
    if missing := [name for name in target.evidence if name not in known]:
        raise InputError(
            f"{source}: the target {target.name} needs the evidence {', '.join(missing)}; make it with calibsft evidence"
        )
    columns = [_columns(name) if known[name] == EXACT else pl.col(name) for name in target.evidence]
    measured = given.select(*(pl.col(key).cast(rows.schema[key]) for key in KEYS), *columns)
    found = rows.lazy().join(measured, on=KEYS, validate="1:1", maintain_order="left").collect()
    if len(found) < len(rows):
        raise InputError(
            f"{source}: the evidence for the target {target.name} covers {len(found)} of {len(rows)} responses; make it for"
            " these responses with calibsft evidence"
        )
    return found


def _columns(name: str) -> pl.Expr:
    """Exact rationals as two columns, numerator (`_k`) and denominator (`_n`)."""
    return pl.col(name).struct.rename_fields([f"{name}_k", f"{name}_n"]).struct.unnest()
