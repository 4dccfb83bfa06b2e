"""Read finished run folders into what a report or a comparison of seeds shows.

Takes every finished stage it finds: those of the recipe in its order, others after them by name. Does not read
the files of an RL stage itself (`training`) nor draw or write anything.
"""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import yaml

from calibsft.artifacts import GRADIENT, MANIFEST, SETTINGS, read_manifest
from calibsft.errors import InputError
from calibsft.evaluation import ROWS, read_metrics
from calibsft.metrics import MEAN_OVER_DATASETS
from calibsft.report.summary import (
    ModelResult,
    RunSummary,
    SeedResult,
    StageCost,
    TargetHistogram,
    TrainingRun,
)
from calibsft.report.tables import seeds_table
from calibsft.report.training import is_rl_stage, read_gradient, read_training
from calibsft.responses.formats import FORMATS
from calibsft.targets.build import SUMMARY

Manifests: TypeAlias = dict[str, dict[str, Any]]


def summarise(root: Path, stage_order: Sequence[str]) -> RunSummary:
    """Everything a report shows of the stages that are finished in `root`."""
    manifests = _finished(root, stage_order)
    evaluated = _evaluated(root, manifests)
    targets, filtered = _targets(root / "build")
    measured = [name for name in manifests if (root / name / GRADIENT).is_file()]
    return RunSummary(
        name=root.name,
        models=tuple(
            ModelResult(manifests[name]["label"], pl.read_parquet(root / name / ROWS).drop_nulls("correct"))
            for name in evaluated
        ),
        targets=targets,
        filtered=filtered,
        costs=tuple(_cost(name, manifest) for name, manifest in manifests.items()),
        recipe_yaml=_recipe(root, list(manifests)),
        command=f"calibsft report {root}",
        training=_training(root, manifests),
        gradients=tuple(read_gradient(root / name, manifests[name]) for name in measured),
    )


def _finished(root: Path, stage_order: Sequence[str]) -> Manifests:
    """The manifests of all finished stages of a run, in `stage_order`, unknown stages last by name."""
    found = {path.parent.name for path in root.glob(f"*/{MANIFEST}") if (path.parent / SETTINGS).is_file()}
    known = [name for name in stage_order if name in found]
    return {name: read_manifest(root / name) for name in (*known, *sorted(found - set(known)))}


def _evaluated(root: Path, stages: Iterable[str]) -> list[str]:
    """The stages that evaluated a model; refuses a run without any."""
    evaluated = [name for name in stages if (root / name / ROWS).is_file()]
    if not evaluated:
        raise InputError(
            f"{root}: no finished evaluation there; give the folder of a run, for example runs/tiny-seed0"
        )
    return evaluated


def _rl_stages(root: Path, manifests: Manifests) -> list[tuple[Path, dict[str, Any]]]:
    stages = [(root / name, manifest) for name, manifest in manifests.items()]
    return [stage for stage in stages if is_rl_stage(*stage)]


def _training(root: Path, manifests: Manifests) -> tuple[TrainingRun, ...]:
    runs = [read_training(*stage) for stage in _rl_stages(root, manifests)]
    return tuple(run for run in runs if run is not None)


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
    """The settings of all stages together; what a later stage set otherwise stands under its name."""
    settings: dict[str, Any] = {}
    otherwise: dict[str, Any] = {}
    for name in stages:
        own = _settings(root / name)
        changed = {key: value for key, value in own.items() if settings.setdefault(key, value) != value}
        if changed:
            otherwise[name] = changed
    if otherwise:
        settings["stages"] = otherwise
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((folder / SETTINGS).read_text(encoding="utf-8"))["settings"]
    return settings


def seeds_report(folders: Sequence[Path], stage_order: Sequence[str]) -> str:
    """The headline of finished runs as Markdown: one table per split, models in the order of their stages."""
    results = [result for folder in folders for result in _seed_results(folder, stage_order)]
    found = {split for result in results for split in result.score["splits"]}
    named: list[str] = [split for split in ("id", "ood") if split in found]
    return "\n\n".join(seeds_table(results, split) for split in named or [MEAN_OVER_DATASETS])


def _seed_results(folder: Path, stage_order: Sequence[str]) -> list[SeedResult]:
    manifests = _finished(folder, stage_order)
    evaluated = _evaluated(folder, manifests)
    seed = _settings(folder / evaluated[0])["seed"]
    distinct = {run.label: run.distinct_values for run in _training(folder, manifests)}
    labels = {name: manifests[name]["label"] for name in evaluated}
    return [
        SeedResult(seed, label, read_metrics(folder / name), distinct.get(label))
        for name, label in labels.items()
    ]
