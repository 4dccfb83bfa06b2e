"""Read finished run folders into what a report or a comparison of seeds shows.

Takes every finished stage it finds, whether a recipe or single commands made it. Does not read the files of an RL stage
itself (`training`) nor draw or write anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

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
from calibsft.artifacts.lineage import CALIBSFT
from calibsft.errors import InputError
from calibsft.evaluation import ROWS, read_budgets, read_estimators, read_metrics, rows_without_text
from calibsft.report import responses as reading
from calibsft.report.lineage import Lineage, lineages, step_title
from calibsft.report.markup import markdown_table
from calibsft.report.seed_tables import each_seed_table, spread_table
from calibsft.report.splits import mean_over_all, shown_splits
from calibsft.report.summary import ModelResult, Responses, RunSummary, SeedResult, StageCost, TrainingRun
from calibsft.report.training import read_gradient, read_training, read_training_set
from calibsft.targets.summary import SUMMARY

# Stages as a report lists them, by what they do.
ORDER = ("base", "rollout", "verify", "evidence", "build", "sft", "rl", "prior", "eval", "report")


def summarise(root: Path, responses: int = 0) -> RunSummary:
    """Everything a report shows of the stages that are finished in `root`, with about so many `responses` to read."""
    run = _Run.of(root)
    training = run.training()
    evaluated = run.evaluated(required=not training)
    return RunSummary(
        name=root.resolve().name,
        models=_models(run, evaluated, training),
        recipe_yaml=_recipe(root, run.manifests),
        command=f"calibsft report {root}",
        training_sets=tuple(
            read_training_set(root / name, run.manifests[name], run.label(name))
            for name in run.having(SUMMARY)
        ),
        costs=tuple(_cost(root / name, manifest) for name, manifest in run.manifests.items()),
        training=training,
        gradients=tuple(read_gradient(root / name, run.label(name)) for name in run.having(GRADIENT)),
        responses=_responses(run, evaluated, responses),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The finished stages of a run, in the order in which a report shows them, and the models that they are about."""

    root: Path
    manifests: dict[str, dict[str, Any]]
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

    def last_step(self, stage: str) -> str:
        """What a training stage did to its model."""
        steps = self.lineages[stage].steps if stage in self.lineages else ()
        return step_title(steps[-1] if steps else CALIBSFT)

    def having(self, file: str) -> list[str]:
        """The stages that wrote such a file."""
        return [name for name in self.manifests if (self.root / name / file).is_file()]

    def evaluated(self, required: bool = True) -> list[str]:
        """The stages that evaluated a model; refuses a run without any where one is required."""
        found = self.having(ROWS)
        if required and not found:
            raise InputError(
                f"{self.root}: no finished evaluation there; give the folder of a run, for example runs/tiny-seed0"
            )
        return found

    def training(self) -> tuple[TrainingRun, ...]:
        runs = [
            read_training(self.root / name, manifest, self.lineages[name])
            for name, manifest in self.manifests.items()
            if name in self.lineages
        ]
        return tuple(run for run in runs if run is not None)


def summarise_training(folder: Path, label: str) -> RunSummary:
    """Everything a report shows of one training by RL, such as the folder that `calibsft rl` wrote."""
    manifest = read_manifest(folder)
    lineage = Lineage(tuple(manifest.get("lineage", ())))
    training = read_training(folder, manifest, lineage)
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


def _models(run: _Run, evaluated: Sequence[str], training: Iterable[TrainingRun]) -> tuple[ModelResult, ...]:
    """The evaluated models of a run, each with what is known of its lineage."""
    methods = {trained.label: trained.method for trained in training}
    labels = {run.lineages[name].label for name in evaluated if name in run.lineages}
    found = []
    for name in evaluated:
        model = read_evaluation(run.root / name, run.label(name))
        if lineage := run.lineages.get(name):
            counterpart = lineage.counterpart.label if lineage.calibrated else ""
            model = replace(
                model,
                method=methods.get(model.label, ""),
                calibrated=lineage.calibrated,
                counterpart=counterpart if counterpart in labels else "",
                starts_rl=lineage.starts_rl,
                seed=lineage.seed,
                title=lineage.title,
                warmed_up=lineage.warmed_up,
            )
        found.append(model)
    return tuple(found)


def read_evaluation(folder: Path, label: str) -> ModelResult:
    """What an evaluation left behind, wherever it was made."""
    rows = rows_without_text(folder).drop_nulls("correct")  # no table or figure needs the texts
    estimators = {found["estimator"]: found for found in read_estimators(folder)}
    model = ModelResult(label, rows, estimators=estimators)
    budgets = read_budgets(folder)
    if not budgets:
        return model
    # Results under every budget, and without one.
    free = read_metrics(folder)
    parts = [*((part["budget"], part) for part in budgets), (None, free)]
    shared = [name for name in free["datasets"] if all(name in part["datasets"] for _, part in parts)]
    return replace(
        model,
        budgets=_budgets([(b, part["splits"].get("id", mean_over_all(part))) for b, part in parts]),
        benchmark_budgets={
            name: _budgets([(budget, part["datasets"][name]) for budget, part in parts]) for name in shared
        },
    )


def _budgets(rows: Sequence[tuple[int | None, dict[str, Any]]]) -> pl.DataFrame:
    schema = {"budget": pl.Int64, "pass@1": pl.Float64, "ece": pl.Float64}
    cells = [(budget, scores["pass@1"], scores["ece"]) for budget, scores in rows]
    return pl.DataFrame(cells, schema=schema, orient="row")


def _responses(run: _Run, evaluated: Sequence[str], most: int) -> tuple[Responses, ...]:
    """Responses to read: of every model about as many, and a tenth of them of the training sets."""
    # Models of several seeds learn from one training set.
    sets = {reading.set_of(run.root, run.manifests, name): name for name in run.having(SUPERVISION)}
    folders = [(run.label(name), run.root / name) for name in evaluated]
    share = most // reading.TRAINING_SHARE // max(1, len(sets))
    share_bytes = reading.TEXT_BYTES // reading.TRAINING_SHARE
    return (
        *reading.evaluated_responses(folders, most),
        *(
            reading.trained_responses(
                run.root, found, name, run.label(found.build), share, share_bytes, run.last_step(name)
            )
            for found, name in sets.items()
            if found is not None and share
        ),
    )


def _cost(folder: Path, manifest: dict[str, Any]) -> StageCost:
    # Without a file of costs, a resumed stage knows the time of its last part only.
    partly = manifest["resumed"] and not (folder / COST).is_file()
    name = f"{folder.name} (last part)" if partly else folder.name
    return StageCost(name, manifest["wall_seconds"], manifest.get("tokens"), manifest.get("peak_memory_mb"))


def _recipe(root: Path, stages: Iterable[str]) -> str:
    """The settings of all stages; where a later stage differs, its values stand under its name."""
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
    evaluated = run.evaluated()
    several = any(run.lineages[name].seed is not None for name in evaluated if name in run.lineages)
    distinct = {trained.label: trained.distinct_values for trained in run.training()}
    return [
        SeedResult(
            # An untrained model has the recipe's seed, unless the trained ones have several.
            run.manifests[name].get(
                "training_seed", None if several else recorded_settings(root / name)["seed"]
            ),
            run.lineages[name].title if name in run.lineages else name,
            read_metrics(root / name),
            distinct.get(run.label(name)),
        )
        for name in evaluated
    ]
