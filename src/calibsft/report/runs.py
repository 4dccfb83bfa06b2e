"""Read finished run folders into what a report or a comparison of seeds shows.

Takes every finished stage it finds, whether a recipe or single commands made it. Does not read the files of an RL stage
itself (`training`) nor draw or write anything.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, TypeAlias

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
from calibsft.report.lineage import Lineage, lineages
from calibsft.report.markup import markdown_table
from calibsft.report.responses import (
    TEXT_BYTES,
    TRAINING_SHARE,
    evaluated_responses,
    set_of,
    trained_responses,
)
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
from calibsft.report.training import is_rl_stage, read_gradient, read_training
from calibsft.responses.formats import FORMATS
from calibsft.targets.summary import SUMMARY

BUDGET_SCORES = ("pass@1", "ece")

# Stages as a report lists them, by what they do.
ORDER = ("base", "rollout", "verify", "evidence", "build", "sft", "rl", "prior", "eval", "report")

Manifests: TypeAlias = dict[str, dict[str, Any]]


def summarise(root: Path, responses: int = 0) -> RunSummary:
    """Everything a report shows of the stages that are finished in `root`.

    Parameters
    ----------
    responses : about how many responses can be read on the page.
    """
    run = _Run.of(root)
    training = run.training()
    evaluated = _evaluated(root, run.manifests, required=not training)
    measured = [name for name in run.manifests if (root / name / GRADIENT).is_file()]
    return RunSummary(
        name=root.resolve().name,
        models=_models(run, evaluated, training),
        recipe_yaml=_recipe(root, list(run.manifests)),
        command=f"calibsft report {root}",
        training_sets=_training_sets(run),
        costs=tuple(_cost(root / name, manifest) for name, manifest in run.manifests.items()),
        training=training,
        gradients=tuple(read_gradient(root / name, run.label(name)) for name in measured),
        responses=_responses(run, evaluated, responses),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The finished stages of a run, in the order in which a report shows them, and the models that they are about."""

    root: Path
    manifests: Manifests
    lineages: dict[str, Lineage]

    @classmethod
    def of(cls, root: Path) -> Self:
        found = [
            path.parent.name for path in root.glob(f"*/{MANIFEST}") if (path.parent / SETTINGS).is_file()
        ]
        manifests = {name: read_manifest(root / name) for name in sorted(found)}
        models = lineages(root, manifests)

        def place(name: str) -> tuple[Any, ...]:
            kind = manifests[name]["stage"]
            known = ORDER.index(kind) if kind in ORDER else len(ORDER)
            return known, name not in models, *(models[name].place if name in models else ()), name

        return cls(root, {name: manifests[name] for name in sorted(manifests, key=place)}, models)

    def label(self, stage: str) -> str:
        return self.lineages[stage].label if stage in self.lineages else stage

    def training(self) -> tuple[TrainingRun, ...]:
        runs = [
            read_training(self.root / name, manifest, self.lineages[name])
            for name, manifest in self.manifests.items()
            if is_rl_stage(manifest)
        ]
        return tuple(run for run in runs if run is not None)


def summarise_training(folder: Path, label: str) -> RunSummary:
    """Everything a report shows of one training by RL, such as the folder that `calibsft rl` wrote."""
    manifest = read_manifest(folder)
    lineage = Lineage(tuple(manifest.get("lineage", ())))
    training = read_training(folder, manifest, lineage) if is_rl_stage(manifest) else None
    if training is None:
        raise InputError(
            f"{folder}: neither a training by RL nor an evaluation; give what calibsft rl, eval or run wrote"
        )
    known = lineage.start.steps  # of a checkpoint from elsewhere it is not known what was done to it
    own = {} if known else {"start": manifest["model"], "calibrated": None}
    return RunSummary(
        name=label,
        models=(),
        recipe_yaml=_recipe(folder.parent, [folder.name]),
        costs=(_cost(folder, manifest),),
        training=(replace(training, label=label, **own),),
    )


def _evaluated(root: Path, stages: Iterable[str], required: bool = True) -> list[str]:
    """The stages that evaluated a model; refuses a run without any where one is required."""
    evaluated = [name for name in stages if (root / name / ROWS).is_file()]
    if required and not evaluated:
        raise InputError(
            f"{root}: no finished evaluation there; give the folder of a run, for example runs/tiny-seed0"
        )
    return evaluated


def _models(run: _Run, evaluated: Sequence[str], training: Iterable[TrainingRun]) -> tuple[ModelResult, ...]:
    """The evaluated models of a run, each with its lineage."""
    methods = {trained.label: trained.method for trained in training}
    labels = {run.lineages[name].label for name in evaluated if name in run.lineages}
    return tuple(_model(run, name, methods, labels) for name in evaluated)


def _model(run: _Run, name: str, methods: Mapping[str, str], labels: Collection[str]) -> ModelResult:
    model = read_evaluation(run.root / name, run.label(name))
    if name not in run.lineages:
        return model
    lineage = run.lineages[name]
    counterpart = lineage.counterpart.label if lineage.calibrated else ""
    return replace(
        model,
        method=methods.get(model.label, ""),
        calibrated=lineage.calibrated,
        counterpart=counterpart if counterpart in labels else "",
        starts_rl=lineage.starts_rl,
        seed=lineage.seed,
        title=lineage.title,
    )


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


def _training_sets(run: _Run) -> tuple[TrainingSet, ...]:
    built = {
        run.label(name): json.loads((run.root / name / SUMMARY).read_text(encoding="utf-8"))
        for name in run.manifests
        if (run.root / name / SUMMARY).is_file()
    }
    return tuple(
        TrainingSet(label, _by_text(found["before"]), _by_text(found["after"]), found["filtered"])
        for label, found in built.items()
    )


def _responses(run: _Run, evaluated: Sequence[str], most: int) -> tuple[Responses, ...]:
    """Responses to read: of every model about as many, and a tenth of them of the training sets."""
    tuned = [name for name in run.manifests if (run.root / name / SUPERVISION).is_file()]
    # Models of several seeds learn from one training set.
    sets = {set_of(run.root, run.manifests, name): name for name in tuned}
    said = evaluated_responses([(run.label(name), run.root / name) for name in evaluated], most)
    share = most // TRAINING_SHARE // max(1, len(sets))
    shown = [
        trained_responses(run.root, found, name, run.label(found.build), share, TEXT_BYTES // TRAINING_SHARE)
        for found, name in sets.items()
        if found is not None and share
    ]
    return (*said, *shown)


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


def headline(root: Path) -> str:
    """The results of a finished run as Markdown, by split: over its seeds where it has several, and of each."""
    results = _seed_results(root)
    splits = shown_splits([result.score for result in results])
    tables = [table(results, split) for split in splits for table in (spread_table, each_seed_table)]
    return "\n\n".join(markdown_table(table) for table in tables if table is not None)


def _seed_results(root: Path) -> list[SeedResult]:
    run = _Run.of(root)
    evaluated = _evaluated(root, run.manifests)
    several = any(run.lineages[name].seed is not None for name in evaluated if name in run.lineages)
    distinct = {trained.label: trained.distinct_values for trained in run.training()}
    return [
        SeedResult(
            # What is not trained has the recipe's seed, unless other models have others.
            run.manifests[name].get(
                "training_seed", None if several else recorded_settings(root / name)["seed"]
            ),
            run.lineages[name].title if name in run.lineages else name,
            read_metrics(root / name),
            distinct.get(run.label(name)),
        )
        for name in evaluated
    ]
