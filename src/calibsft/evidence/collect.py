"""Measure columns of evidence for every response, part by part, resumably.

A part of the evidence has the rows of its part of the responses, and is written again after each column. After a kill, only
the missing columns are measured. A column of another version or instrument is measured again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import JUDGE_CACHE, shards, write_atomic
from calibsft.errors import InputError, unknown_name
from calibsft.evidence import EVIDENCE
from calibsft.evidence.context import Context
from calibsft.evidence.evidence import Evidence
from calibsft.evidence.parts import OPTIONAL, Part
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.progress import Progress, warn
from calibsft.schema import KEYS
from calibsft.verify.verifier import Verifier

# Under this key the metadata of a shard name the version and instrument of each column.
SOURCES = "calibsft-evidence"


def choose_evidence(names: Sequence[str], settings: EvidenceSettings, judge: JudgeSettings) -> dict[str, str]:
    """The version and instrument of each named evidence, in the order of `EVIDENCE`; refuses what cannot be measured."""
    if not names:
        raise InputError(f"no evidence is named; name one of {', '.join(EVIDENCE)}")
    for name in names:
        if name not in EVIDENCE:
            unknown_name("evidence", name, list(EVIDENCE))
    return {name: found.source(settings, judge) for name, found in EVIDENCE.items() if name in names}


def collect_evidence(
    names: Sequence[str],
    parts: Sequence[Part],
    settings: EvidenceSettings,
    folder: Path,
    label: str,
    judge: JudgeSettings = JudgeSettings(),
    device: str = "auto",
    dtype: str = "auto",
) -> dict[str, Any]:
    """Write evidence into `folder` for every part of the responses; returns facts for the manifest.

    `label` is the name of this work in progress lines.
    """
    sources = choose_evidence(names, settings, judge)
    known = [_known(folder / part.name, part, sources) for part in parts]
    total = sum(map(len, known)) * len(sources)
    done = sum(len(found) * (found.width - len(KEYS)) for found in known)
    with Progress(label, total, "values", done) as progress, Verifier() as verifier:
        cache = folder / JUDGE_CACHE
        context = Context(settings, judge, cache, device, dtype, verifier, progress, parts[0].rows)
        for part, found in zip(parts, known, strict=True):
            _complete(folder / part.name, part, found, sources, context)
        measured = {key: value for name in sources for key, value in EVIDENCE[name].facts(context).items()}
    return {**_facts(folder, sources), **measured}


def read_evidence(*folders: Path) -> pl.LazyFrame:
    """The columns of evidence that all of these folders have, with the keys of their responses."""
    for folder in folders:
        if not shards(folder):
            raise InputError(
                f"{folder}: no evidence there (part-*.parquet); give the folder of an evidence stage"
            )
    tables = [pl.scan_parquet(shards(folder)) for folder in folders]
    first, *others = [table.collect_schema().names() for table in tables]
    return pl.concat(
        table.select(name for name in first if all(name in names for names in others)) for table in tables
    )


def _known(path: Path, part: Part, sources: dict[str, str]) -> pl.DataFrame:
    """The keys of a part's responses, with the columns that are up to date."""
    keys = part.keys()
    if not path.is_file():
        return keys
    try:
        made_by = json.loads(pl.read_parquet_metadata(path).get(SOURCES, "{}"))
        found = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        found = pl.DataFrame()
    if not set(KEYS) <= set(found.columns) or not found.select(KEYS).equals(keys):
        warn(f"{path} is damaged or does not hold the responses of {part.source}: it is measured again")
        return keys
    current = [name for name in sources if name in found.columns and made_by.get(name) == sources[name]]
    return found.select(*KEYS, *current)


def _complete(path: Path, part: Part, found: pl.DataFrame, sources: dict[str, str], context: Context) -> None:
    """Measure the missing columns of a part, and write it after each; columns without a name in `sources` are removed."""
    missing = [name for name in sources if name not in found.columns]
    if not missing and len(pl.read_parquet_schema(path)) > found.width:
        _write(path, found, sources)
    rows = part.rows() if missing else pl.DataFrame()
    for name in missing:
        _require(EVIDENCE[name], rows, part)
        found = found.with_columns(_measured(EVIDENCE[name], rows, context))
        _write(path, found, sources)
        context.finish_column(len(rows))


def _require(evidence: Evidence, rows: pl.DataFrame, part: Part) -> None:
    """Refuse a user's file without a column that the evidence is made of."""
    missing = [name for name in evidence.columns if name not in rows.columns]
    if missing:
        raise InputError(
            f"{part.source}: the evidence {evidence.name} needs {', '.join(missing)}, which these responses do not have;"
            f" {'add the column, or ' if set(missing) <= set(OPTIONAL) else ''}give rollouts and their verdicts"
        )


def _measured(evidence: Evidence, rows: pl.DataFrame, context: Context) -> pl.Series:
    column = evidence.measure(rows, context)
    if column.dtype != evidence.dtype or len(column) != len(rows):
        raise TypeError(
            f"evidence {evidence.name} gave {len(column)} values of {column.dtype} for {len(rows)} responses,"
            f" not one {evidence.dtype} for each"
        )
    return column.alias(evidence.name)


def _write(path: Path, found: pl.DataFrame, sources: dict[str, str]) -> None:
    """Write the columns in the order of `sources`, with the sources as metadata."""
    made_by = {name: source for name, source in sources.items() if name in found.columns}
    metadata = {SOURCES: json.dumps(made_by)}
    write_atomic(
        path, lambda partial: found.select(*KEYS, *made_by).write_parquet(partial, metadata=metadata)
    )


def _facts(folder: Path, sources: dict[str, str]) -> dict[str, Any]:
    counted = read_evidence(folder).select(
        pl.len().alias("responses"), *(pl.col(name).count() for name in sources)
    )
    counts = counted.collect().row(0, named=True)
    return {"evidence": sources, "responses": counts.pop("responses"), "measured": counts}
