"""Read finished run folders into what a report or a comparison of seeds shows.

Takes every finished stage it finds: those of the recipe in its order, others after them by name. Does not read
the files of an RL stage itself (`training`) nor draw or write anything.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import yaml

from calibsft.artifacts import (
    COST,
    GRADIENT,
    MANIFEST,
    SETTINGS,
    SUPERVISION,
    read_manifest,
    recorded_settings,
)
from calibsft.errors import InputError
from calibsft.evaluation import ROWS, read_budgets, read_estimators, read_metrics
from calibsft.metrics import MEAN_OVER_DATASETS
from calibsft.recipe import CALIBSFT
from calibsft.report.markup import markdown_table
from calibsft.report.responses import TEXT_BYTES, TRAINING_SHARE, evaluated_responses, trained_responses
from calibsft.report.seed_tables import each_seed_table, spread_table
from calibsft.report.summary import (
    ModelResult,
    Responses,
    RunSummary,
    SeedResult,
    StageCost,
    TrainingRun,
    TrainingSet,
)
from calibsft.report.tables import shown_splits
from calibsft.report.training import is_rl_stage, read_gradient, read_training, seed_among_several
from calibsft.responses.formats import FORMATS
from calibsft.targets.build import SUMMARY

BUDGET_SCORES = ("pass@1", "ece")

Manifests: TypeAlias = dict[str, dict[str, Any]]


def summarise(root: Path, stage_order: Sequence[str], responses: int = 0) -> RunSummary:
    """Everything a report shows of the stages that are finished in `root`.

    Parameters
    ----------
    responses : about how many responses can be read on the page.
    """
    manifests = _finished(root, stage_order)
    training = _training(root, manifests)
    evaluated = _evaluated(root, manifests, required=not training)
    measured = [name for name in manifests if (root / name / GRADIENT).is_file()]
    return RunSummary(
        name=root.resolve().name,
        models=_models(root, {name: manifests[name] for name in evaluated}, training),
        recipe_yaml=_recipe(root, list(manifests)),
        command=f"calibsft report {root}",
        training_sets=_training_sets(root, manifests),
        costs=tuple(_cost(root / name, manifest) for name, manifest in manifests.items()),
        training=training,
        gradients=tuple(read_gradient(root / name, manifests[name]) for name in measured),
        responses=_responses(root, manifests, evaluated, responses),
    )


def _finished(root: Path, stage_order: Sequence[str]) -> Manifests:
    """The manifests of all finished stages of a run, in `stage_order`, unknown stages last by name."""
    found = {path.parent.name for path in root.glob(f"*/{MANIFEST}") if (path.parent / SETTINGS).is_file()}
    known = [name for name in stage_order if name in found]
    return {name: read_manifest(root / name) for name in (*known, *sorted(found - set(known)))}


def summarise_training(folder: Path, label: str) -> RunSummary:
    """Everything a report shows of one training by RL, such as the folder that `calibsft rl` wrote."""
    manifest = read_manifest(folder)
    training = read_training(folder, manifest) if is_rl_stage(folder, manifest) else None
    if training is None:
        raise InputError(
            f"{folder}: neither a training by RL nor an evaluation; give what calibsft rl, eval or run wrote"
        )
    return RunSummary(
        name=label,
        models=(),
        recipe_yaml=_recipe(folder.parent, [folder.name]),
        costs=(_cost(folder, manifest),),
        training=(replace(training, label=label),),
    )


def _evaluated(root: Path, stages: Iterable[str], required: bool = True) -> list[str]:
    """The stages that evaluated a model; refuses a run without any where one is required."""
    evaluated = [name for name in stages if (root / name / ROWS).is_file()]
    if required and not evaluated:
        raise InputError(
            f"{root}: no finished evaluation there; give the folder of a run, for example runs/tiny-seed0"
        )
    return evaluated


def _models(root: Path, evaluated: Manifests, training: Iterable[TrainingRun]) -> tuple[ModelResult, ...]:
    """The evaluated models of a run, each with its lineage as its evaluation wrote it down."""
    methods = {run.label: run.method for run in training}
    lineages = {
        _lineage(root / name, manifest): manifest["label"]
        for name, manifest in evaluated.items()
        if "steps" in manifest
    }
    found = []
    for name, manifest in evaluated.items():
        model, steps = read_evaluation(root / name, manifest["label"]), manifest.get("steps")
        if steps is not None:
            (_, format_name, seed) = _lineage(root / name, manifest)
            without = [step for step in steps if step != CALIBSFT]
            model = replace(
                model,
                method=methods.get(model.label, ""),
                calibrated=CALIBSFT in steps,
                counterpart=lineages.get((tuple(without), format_name, seed if without else None), "")
                if CALIBSFT in steps
                else "",
                starts_rl=set(steps) <= {CALIBSFT},
                seed=seed,
                title=manifest.get("title", ""),
            )
        found.append(model)
    return tuple(found)


def _lineage(folder: Path, manifest: dict[str, Any]) -> tuple[tuple[str, ...], str, int | None]:
    """What was done to the base model, the confidence format, and the seed where there are several."""
    return tuple(manifest["steps"]), recorded_settings(folder)["format"], seed_among_several(manifest)


def read_evaluation(folder: Path, label: str) -> ModelResult:
    """What an evaluation left behind, wherever it was made."""
    # The texts are most of the file, and no table or figure needs them.
    rows = pl.scan_parquet(folder / ROWS).drop("response", strict=False).drop_nulls("correct").collect()
    estimators = {found["estimator"]: found for found in read_estimators(folder)}
    model = ModelResult(label, rows, estimators=estimators)
    budgets = read_budgets(folder)
    return replace(model, **_budgets(budgets, read_metrics(folder))) if budgets else model


def _budgets(budgets: Sequence[dict[str, Any]], free: dict[str, Any]) -> dict[str, Any]:
    """Results under every budget and without one: in-distribution means, or else over all benchmarks, and of each one."""
    parts = [*((part["budget"], part) for part in budgets), (None, free)]
    means = [(budget, part["splits"]) for budget, part in parts]
    return {
        "budgets": _budget_table([(b, splits.get("id", splits[MEAN_OVER_DATASETS])) for b, splits in means]),
        "benchmark_budgets": {
            name: _budget_table([(budget, part["datasets"][name]) for budget, part in parts])
            for name in free["datasets"]
            if all(name in part["datasets"] for _, part in parts)
        },
    }


def _budget_table(rows: Sequence[tuple[int | None, dict[str, Any]]]) -> pl.DataFrame:
    cells = {"budget": [budget for budget, _ in rows]} | {
        key: [scores[key] for _, scores in rows] for key in BUDGET_SCORES
    }
    return pl.DataFrame(cells, schema={"budget": pl.Int64} | dict.fromkeys(BUDGET_SCORES, pl.Float64))


def _rl_stages(root: Path, manifests: Manifests) -> list[tuple[Path, dict[str, Any]]]:
    stages = [(root / name, manifest) for name, manifest in manifests.items()]
    return [stage for stage in stages if is_rl_stage(*stage)]


def _training(root: Path, manifests: Manifests) -> tuple[TrainingRun, ...]:
    runs = [read_training(*stage) for stage in _rl_stages(root, manifests)]
    return tuple(run for run in runs if run is not None)


def _training_sets(root: Path, manifests: Manifests) -> tuple[TrainingSet, ...]:
    built = {
        manifest.get("label", name): json.loads((root / name / SUMMARY).read_text(encoding="utf-8"))
        for name, manifest in manifests.items()
        if (root / name / SUMMARY).is_file()
    }
    return tuple(
        TrainingSet(label, _by_text(found["before"]), _by_text(found["after"]), found["filtered"])
        for label, found in built.items()
    )


def _responses(
    root: Path, manifests: Manifests, evaluated: Sequence[str], most: int
) -> tuple[Responses, ...]:
    """Responses to read: of every model about as many, and a tenth of them of the training sets."""
    # Models of several seeds learn from one training set.
    tuned = list(
        {_read_from(root, name): name for name in manifests if (root / name / SUPERVISION).is_file()}.values()
    )
    said = evaluated_responses([(manifests[name]["label"], root / name) for name in evaluated], most)
    share = most // TRAINING_SHARE // max(1, len(tuned))
    sets = [trained_responses(root, name, share, TEXT_BYTES // TRAINING_SHARE) for name in tuned]
    return (*said, *(found for found in sets if found is not None))


def _read_from(root: Path, stage: str) -> tuple[str, ...]:
    """The training sets that a stage read."""
    return tuple(name for name in read_manifest(root / stage)["inputs"] if (root / name / SUMMARY).is_file())


def _by_text(histogram: dict[str, int]) -> dict[str, int]:
    """Counts by the two-decimal text of the exact target."""
    counts: dict[str, int] = {}
    for exact, count in histogram.items():
        text = FORMATS["probability"].render(Fraction(exact))
        counts[text] = counts.get(text, 0) + count
    return counts


def _cost(folder: Path, manifest: dict[str, Any]) -> StageCost:
    # A stage that kept no books while it worked knows the time of its last part only.
    partly = manifest["resumed"] and not (folder / COST).is_file()
    name = f"{folder.name} (last part)" if partly else folder.name
    return StageCost(name, manifest["wall_seconds"], manifest.get("tokens"), manifest.get("peak_memory_mb"))


def _recipe(root: Path, stages: Sequence[str]) -> str:
    """The settings of all stages together; what a later stage set otherwise stands under its name."""
    settings: dict[str, Any] = {}
    otherwise: dict[str, Any] = {}
    for name in stages:
        own = recorded_settings(root / name)
        changed = {key: value for key, value in own.items() if settings.setdefault(key, value) != value}
        if changed:
            otherwise[name] = changed
    if otherwise:
        settings["stages"] = otherwise
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def headline(root: Path, stage_order: Sequence[str]) -> str:
    """The results of a finished run as Markdown, by split: over its seeds where it has several, and of each."""
    results = _seed_results(root, stage_order)
    splits = shown_splits([result.score for result in results])
    tables = [table(results, split) for split in splits for table in (spread_table, each_seed_table)]
    return "\n\n".join(markdown_table(table) for table in tables if table is not None)


def _seed_results(root: Path, stage_order: Sequence[str]) -> list[SeedResult]:
    manifests = _finished(root, stage_order)
    evaluated = {name: manifests[name] for name in _evaluated(root, manifests)}
    several = any(seed_among_several(manifest) is not None for manifest in evaluated.values())
    distinct = {run.label: run.distinct_values for run in _training(root, manifests)}
    return [
        SeedResult(
            # What is not trained has the recipe's seed, unless other models have others.
            manifest.get("training_seed", None if several else recorded_settings(root / name)["seed"]),
            manifest.get("title") or manifest["label"],
            read_metrics(root / name),
            distinct.get(manifest["label"]),
        )
        for name, manifest in evaluated.items()
    ]
