"""Measure columns of evidence for every response of a folder of rollouts, shard by shard, resumably.

A shard of evidence has the rows of its shard of rollouts, and is written again after each column. After a kill, only the
missing columns are measured. A column of another version or instrument is measured again.
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
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.progress import Progress, warn
from calibsft.schema import KEYS
from calibsft.verify.verdicts import rollout_rows
from calibsft.verify.verifier import Verifier

# Under this key the metadata of a shard name the version and instrument of each column.
SOURCES = "calibsft-evidence"
VERDICT_COLUMNS = ("answer", "grade", "correct", "reason", "confidence")


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
    rollouts: Path,
    verdicts: Path,
    settings: EvidenceSettings,
    folder: Path,
    label: str,
    judge: JudgeSettings = JudgeSettings(),
    device: str = "auto",
    dtype: str = "auto",
) -> dict[str, Any]:
    """Write a shard of evidence into `folder` for every shard of rollouts; returns facts for the manifest.

    `verdicts` is the folder of the verdicts on `rollouts`, and `label` the name of this work in progress lines.
    """
    sources = choose_evidence(names, settings, judge)
    plan = shards(rollouts)
    if not plan:
        raise InputError(
            f"{rollouts}: no rollouts there (part-*.parquet); give the folder of a rollout stage"
        )
    known = {shard: _known(folder / shard.name, shard, sources) for shard in plan}
    total = sum(len(found) for found in known.values()) * len(sources)
    done = sum(len(found) * (found.width - len(KEYS)) for found in known.values())
    with Progress(label, total, "values", done) as progress, Verifier() as verifier:
        context = Context(settings, judge, folder / JUDGE_CACHE, device, dtype, verifier, progress)
        for shard, found in known.items():
            _complete(folder / shard.name, shard, verdicts, found, sources, context)
    return _facts(folder, sources)


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


def _known(path: Path, shard: Path, sources: dict[str, str]) -> pl.DataFrame:
    """The keys of a shard's responses, with the columns that are up to date."""
    keys = pl.read_parquet(shard, columns=list(KEYS)).select(KEYS)
    if not path.is_file():
        return keys
    try:
        made_by = json.loads(pl.read_parquet_metadata(path).get(SOURCES, "{}"))
        found = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        found = pl.DataFrame()
    if not set(KEYS) <= set(found.columns) or not found.select(KEYS).equals(keys):
        warn(f"{path} is damaged or does not hold the responses of {shard}: it is measured again")
        return keys
    current = [name for name in sources if name in found.columns and made_by.get(name) == sources[name]]
    return found.select(*KEYS, *current)


def _complete(
    path: Path, shard: Path, verdicts: Path, found: pl.DataFrame, sources: dict[str, str], context: Context
) -> None:
    """Measure the missing columns of a shard, and write it after each; columns without a name in `sources` are removed."""
    missing = [name for name in sources if name not in found.columns]
    if not missing and len(pl.read_parquet_schema(path)) > found.width:
        _write(path, found, sources)
    rows = _rows(shard, verdicts) if missing else pl.DataFrame()
    for name in missing:
        found = found.with_columns(_measured(EVIDENCE[name], rows, context))
        _write(path, found, sources)
        context.finish_column(len(rows))


def _rows(shard: Path, verdicts: Path) -> pl.DataFrame:
    """A shard's responses with their questions and verdicts."""
    path = verdicts / shard.name
    if not path.is_file():
        raise InputError(f"{path}: the verdicts on {shard} are missing; verify those rollouts first")
    graded = pl.read_parquet(path, columns=[*KEYS, *VERDICT_COLUMNS])
    asked = rollout_rows(shard).rename({"grader": "kind"})
    rows = asked.join(graded, on=KEYS, how="left", validate="1:1", maintain_order="left")
    if rows["grade"].null_count():
        raise InputError(
            f"{path}: some responses of {shard} have no verdict there; verify those rollouts again"
        )
    return rows


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
