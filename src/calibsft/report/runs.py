"""Read a finished run folder into the summary that a report shows."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from calibsft.artifacts import MANIFEST, SETTINGS, read_manifest
from calibsft.errors import InputError
from calibsft.evaluation import ROWS, read_metrics
from calibsft.report.summary import ModelResult, RunSummary, StageCost, TargetHistogram
from calibsft.report.tables import seeds_table
from calibsft.responses.formats import FORMATS
from calibsft.targets.build import SUMMARY


def summarise(root: Path, stage_order: Sequence[str]) -> RunSummary:
    """Everything a report shows of the stages that are finished in `root`."""
    stages = [name for name in stage_order if (root / name / MANIFEST).is_file()]
    manifests = {name: read_manifest(root / name) for name in stages}
    evaluated = [name for name in stages if (root / name / ROWS).is_file()]
    if not evaluated:
        raise InputError(
            f"{root}: no finished evaluation there; give the folder of a run, for example runs/tiny-seed0"
        )
    targets, filtered = _targets(root / "build")
    return RunSummary(
        name=root.name,
        models=tuple(
            ModelResult(manifests[name]["label"], pl.read_parquet(root / name / ROWS).drop_nulls("correct"))
            for name in evaluated
        ),
        targets=targets,
        filtered=filtered,
        costs=tuple(_cost(name, manifest) for name, manifest in manifests.items()),
        recipe_yaml=_recipe(root, stages),
        command=f"calibsft report {root}",
    )


def _targets(folder: Path) -> tuple[TargetHistogram | None, dict[str, int]]:
    path = folder / SUMMARY
    if not path.is_file():
        return None, {}
    built = json.loads(path.read_text(encoding="utf-8"))
    return TargetHistogram(_by_text(built["before"]), _by_text(built["after"])), built["filtered"]


def _by_text(histogram: dict[str, int]) -> dict[str, int]:
    """Counts by the two-decimal text of the exact target."""
    counts: dict[str, int] = {}
    for exact, count in histogram.items():
        text = FORMATS["probability"].render(Fraction(exact))
        counts[text] = counts.get(text, 0) + count
    return counts


def _cost(name: str, manifest: dict[str, Any]) -> StageCost:
    # An interrupted stage knows the time of its last part only.
    name = f"{name} (last part)" if manifest["resumed"] else name
    return StageCost(name, manifest["wall_seconds"], manifest.get("tokens"), manifest.get("peak_memory_mb"))


def _recipe(root: Path, stages: Sequence[str]) -> str:
    """The settings of all stages together."""
    settings: dict[str, Any] = {}
    for name in stages:
        settings |= yaml.safe_load((root / name / SETTINGS).read_text(encoding="utf-8"))["settings"]
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def seeds_report(folders: Sequence[Path]) -> str:
    """The headline of finished runs as Markdown: one table per split, one row per run and model."""
    rows = []
    for folder in folders:
        seed = yaml.safe_load((folder / "eval-base" / SETTINGS).read_text(encoding="utf-8"))["settings"][
            "seed"
        ]
        for name in sorted(path.parent.name for path in folder.glob(f"*/{ROWS}")):
            rows.append((seed, read_manifest(folder / name)["label"], read_metrics(folder / name)))
    evaluated = rows[0][2]["splits"]
    return "\n\n".join(seeds_table(rows, split) for split in ("id", "ood") if split in evaluated)
