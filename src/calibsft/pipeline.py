"""Which stages a recipe needs, in order, skipping what is done.

A stage names the recipe sections that shape it and the stages that it reads. Its folder records both, so a
finished stage is skipped when nothing that shaped it has changed, and refused - by the name of the changed key -
when something has. Heavy libraries are imported when a stage runs, never before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import StageFolder, file_hash, model_inputs
from calibsft.errors import InputError
from calibsft.progress import Progress, say, warn
from calibsft.recipe import PLAYGROUND, Recipe
from calibsft.responses.formats import get_format

Facts = dict[str, Any]

# Within these bounds the playground shows something: a weaker base has no high targets, a stronger one no low ones.
PLAYGROUND_ACCURACY = (0.3, 0.65)
PLAYGROUND_QUESTIONS = 3000


@dataclass(frozen=True, slots=True)
class Run:
    """A recipe and the folder that its stages fill."""

    recipe: Recipe
    root: Path

    def folder(self, stage: str) -> Path:
        return self.root / stage

    @property
    def base_model(self) -> str:
        return str(self.folder("base") / "model") if self.recipe.model == PLAYGROUND else self.recipe.model


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run; `sections` are the recipe keys that shape its result."""

    name: str
    sections: tuple[str, ...]
    needs: tuple[str, ...]
    work: Callable[[Run, Path], Facts]

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        resolved = recipe.model_dump(mode="json")
        return {section: resolved[section] for section in self.sections}


def train_base(run: Run, folder: Path) -> Facts:
    from calibsft.playground.base import train_base

    settings = run.recipe.base
    with Progress("base", settings.steps, "steps") as progress:
        train_base(settings, run.recipe.seed, folder / "model", progress)
    return {"device": "cpu"}


def collect_rollouts(run: Run, folder: Path) -> Facts:
    from calibsft.rollouts.load import load_collector

    recipe, settings = run.recipe, run.recipe.rollout
    confidence_format = get_format(recipe.format)
    collector = load_collector(
        run.base_model, confidence_format, settings, recipe.seed, recipe.device, recipe.dtype
    )
    questions = training_questions(recipe)
    tokens = collector.collect(
        questions, lambda _: settings.samples, folder, settings.shard_questions, "rollout"
    )
    return {"tokens": tokens, "device": collector.device, "questions": len(questions)}


def training_questions(recipe: Recipe) -> list[Any]:
    """The questions that responses are sampled for."""
    if recipe.questions.source == PLAYGROUND:
        from calibsft.playground import world

        return world.training_questions(recipe.questions.limit or PLAYGROUND_QUESTIONS)
    from calibsft.benchmarks.files import load_questions

    return load_questions(Path(recipe.questions.source))[: recipe.questions.limit]


def verify_rollouts(run: Run, folder: Path) -> Facts:
    from calibsft.verify.verdicts import verify_folder

    versions = verify_folder(run.folder("rollout"), get_format(run.recipe.format), folder, "verify")
    accuracy = pl.scan_parquet(folder / "part-*.parquet").select(pl.col("correct").mean()).collect().item()
    if accuracy is None:
        raise InputError(
            f"{run.recipe.questions.source}: no gold answer could be read, so nothing is graded; mend the golds"
        )
    low, high = PLAYGROUND_ACCURACY
    if run.recipe.model == PLAYGROUND and not low <= accuracy <= high:
        warn(
            f"the base model is right in {accuracy:.0%} of its responses; {low:.0%} to {high:.0%} is where targets spread: change base.steps"
        )
    return {"verifier": versions, "accuracy": accuracy}


def build_training_set(run: Run, folder: Path) -> Facts:
    from calibsft.report.terminal import build_lines
    from calibsft.targets.build import build
    from calibsft.targets.pool import pool_of_run

    pool = pool_of_run(run.folder("rollout"), run.folder("verify"))
    recipe = run.recipe
    summary = build(
        pool, recipe.targets, get_format(recipe.format), recipe.seed, str(run.folder("rollout")), folder
    )
    say("\n".join(build_lines(summary)))
    return {"rows": summary.rows, "group_size": summary.group_size}


def run_sft(run: Run, folder: Path) -> Facts:
    from calibsft.sft.fine_tune import fine_tune
    from calibsft.targets.build import SFT_TABLE

    recipe = run.recipe
    data = run.folder("build") / SFT_TABLE
    return fine_tune(
        run.base_model, data, recipe.sft, get_format(recipe.format), recipe.seed, folder, recipe.device
    )


def evaluate_base(run: Run, folder: Path) -> Facts:
    return _evaluate(run, run.base_model, folder, "Base")


def evaluate_calibsft(run: Run, folder: Path) -> Facts:
    return _evaluate(run, str(run.folder("sft") / "model"), folder, "CalibSFT")


def _evaluate(run: Run, model: str, folder: Path, label: str) -> Facts:
    from calibsft.evaluation import evaluate_model

    recipe = run.recipe
    facts = evaluate_model(
        model,
        recipe.eval,
        get_format(recipe.format),
        recipe.seed,
        folder,
        recipe.device,
        recipe.dtype,
        folder.name,
    )
    return {"label": label, **facts}


def write_run_report(run: Run, folder: Path) -> Facts:
    from calibsft.report.page import write_report
    from calibsft.report.runs import summarise

    write_report(summarise(run.root, STAGE_ORDER), folder)
    return {}


SAMPLED_FROM = ("seed", "format", "model", "device", "dtype")
STAGES = (
    Stage("base", ("seed", "base"), (), train_base),
    Stage("rollout", (*SAMPLED_FROM, "questions", "rollout"), ("base",), collect_rollouts),
    Stage("verify", ("format",), ("rollout",), verify_rollouts),
    Stage("build", ("seed", "format", "targets"), ("rollout", "verify"), build_training_set),
    Stage("sft", ("seed", "format", "model", "device", "sft"), ("base", "build"), run_sft),
    Stage("eval-base", (*SAMPLED_FROM, "eval"), ("base",), evaluate_base),
    Stage("eval-calibsft", (*SAMPLED_FROM, "eval"), ("sft",), evaluate_calibsft),
    Stage("report", ("name",), ("build", "eval-base", "eval-calibsft"), write_run_report),
)
STAGE_ORDER = tuple(stage.name for stage in STAGES)


def plan(recipe: Recipe) -> list[Stage]:
    """The stages of `recipe`, in order; only the playground trains its own base."""
    return [stage for stage in STAGES if stage.name != "base" or recipe.model == PLAYGROUND]


def run_pipeline(recipe: Recipe, root: Path, fresh: bool = False) -> None:
    """Do what is missing of `recipe` in `root`.

    Parameters
    ----------
    fresh
        Start over every stage whose settings or inputs changed, instead of refusing.
    """
    run = Run(recipe, root)
    hashes: dict[str, str] = {}
    for stage in plan(recipe):
        inputs = {name: hashes[name] for name in stage.needs if name in hashes}
        if stage.name == "rollout" and recipe.questions.source != PLAYGROUND:
            inputs["questions"] = file_hash(Path(recipe.questions.source))
        if "model" in stage.sections and recipe.model != PLAYGROUND:
            inputs |= model_inputs(recipe.model)
        folder = StageFolder(root / stage.name, stage.name, stage.settings(recipe), inputs)
        folder.perform(partial(stage.work, run), fresh)
        hashes[stage.name] = folder.manifest()["content_hash"]
