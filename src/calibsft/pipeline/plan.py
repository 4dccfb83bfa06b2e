"""From a recipe to its stages, each after those that it reads.

CalibSFT is four stages on the model before it (rollout, verify, build, sft); RL is one, which reads questions and
success rates from the base model's rollouts. Every model is evaluated. Models that share a beginning share its
stages, by name. With several training seeds every training and all that depends on it is there once for each, while
what is sampled, built and evaluated keeps the recipe's seed: models of two seeds differ by their trainings alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from calibsft.artifacts import SETTINGS
from calibsft.errors import InputError
from calibsft.pipeline import stages
from calibsft.pipeline.chain import Chain, chains
from calibsft.pipeline.stages import Facts, Run, model_stage
from calibsft.questions import PLAYGROUND
from calibsft.recipe import CALIBSFT, Recipe, load_recipe

# The recipe's keys that decide what a model's samples look like.
SAMPLED_FROM = ("seed", "format", "model", "device", "dtype")
REPORT = "report"


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run; `settings` shape its result, and the stages in `needs` come before it."""

    name: str
    settings: dict[str, Any]
    needs: tuple[str, ...]
    work: Callable[[Path], Facts]


def plan(run: Run) -> list[Stage]:
    """The stages of a run, in order."""
    found: dict[str, Stage] = {}
    for chain in dict.fromkeys(chains(run.recipe)):
        for stage in _stages_of(run, chain):
            found.setdefault(stage.name, stage)
    read = {name for stage in found.values() for name in stage.needs}
    last = tuple(name for name in found if name not in read)
    report = Stage(REPORT, {"name": run.recipe.name}, last, partial(_write_report, run))
    return [*found.values(), report]


def stage_names(recipe: Recipe) -> list[str]:
    """The names of a recipe's stages, in the order of the work."""
    return [stage.name for stage in plan(Run(recipe, Path()))]


def report_order(recipe: Recipe) -> list[str]:
    """The stages as a report shows them: evaluations last, those of models that RL starts from first."""
    names = stage_names(recipe)
    models = sorted(
        dict.fromkeys(chains(recipe)), key=lambda chain: chain.steps[-1:] not in ((), (CALIBSFT,))
    )
    evaluations = [chain.evaluation for chain in models]
    return [name for name in names if name not in evaluations] + evaluations


def recorded_order(root: Path) -> list[str]:
    """The same for a run folder by the recipe in it; empty where it has none that this version reads."""
    try:
        return report_order(load_recipe(str(root / SETTINGS)))
    except InputError:  # the order is a nicety: results of another version are shown all the same
        return []


def _stages_of(run: Run, chain: Chain) -> Iterator[Stage]:
    """How the model of `chain` is made from the one before it, and its evaluation."""
    make = partial(_stage, run)
    model = (model_stage(chain),)
    if not chain.steps:
        if run.recipe.model == PLAYGROUND:
            yield make("base", chain, ("seed", "base"), (), stages.train_base)
    elif chain.steps[-1] == CALIBSFT:
        yield from _sampled(run, chain.parent.sampled)
        yield from _calibsft(run, chain.parent)
    else:
        yield from _prior(run, chain.parent)
        sampled = chain.base.sampled
        yield from _sampled(run, sampled)
        needs = (model_stage(chain.parent), sampled.stage("rollout"), sampled.stage("verify"))
        watched = ("eval",) if run.recipe.rl_of(chain.steps[-1]).eval_every else ()
        judged = ("judge",) if run.recipe.judge.model else ()
        sections = ("seed", "format", "model", "device", "rl", *watched, *judged)
        yield make(chain.stage(), chain, sections, needs, stages.run_rl)
    yield make(chain.evaluation, chain, (*SAMPLED_FROM, "eval", "judge"), model, stages.evaluate)


def _sampled(run: Run, chain: Chain) -> Iterator[Stage]:
    """Rollouts of a model on the training questions, with verdicts."""
    rollout, verify = chain.stage("rollout"), chain.stage("verify")
    sections = (*SAMPLED_FROM, "questions", "rollout")
    yield _stage(run, rollout, chain, sections, (model_stage(chain),), stages.collect_rollouts)
    yield _stage(run, verify, chain, ("format", "judge"), (rollout,), stages.verify_rollouts)


def _prior(run: Run, chain: Chain) -> Iterator[Stage]:
    """What a model that RL starts from can learn, where the recipe asks for it."""
    if run.recipe.prior.contexts:
        name = chain.evaluation.replace("eval", "prior", 1)
        sections = ("format", "model", "device", "dtype", "prior")
        yield _stage(run, name, chain, sections, (model_stage(chain), chain.evaluation), stages.measure_prior)


def _calibsft(run: Run, chain: Chain) -> Iterator[Stage]:
    """Targets for the rollouts of a model, and the model fine-tuned on them."""
    build, sft = chain.stage("build"), chain.stage("sft")
    sampled = (chain.sampled.stage("rollout"), chain.sampled.stage("verify"))
    yield _stage(run, build, chain, ("seed", "format", "targets"), sampled, stages.build_training_set)
    sections = ("seed", "format", "model", "device", "sft")
    yield _stage(run, sft, chain, sections, (model_stage(chain), build), stages.run_sft)


def _stage(
    run: Run,
    name: str,
    chain: Chain,
    sections: tuple[str, ...],
    needs: tuple[str, ...],
    work: Callable[[Run, Chain, Path], Facts],
) -> Stage:
    """A stage whose settings are sections of the recipe, with the format of its chain."""
    resolved = run.recipe.model_dump(mode="json")
    settings = {section: resolved[section] for section in sections}
    if "format" in settings and chain.other_format:
        settings["format"] = chain.other_format
    if work in (stages.run_sft, stages.run_rl):
        settings["seed"] = run.training_seed(chain)
    if "rl" in settings:
        settings["rl"] = run.recipe.rl_of(chain.steps[-1]).model_dump(mode="json")
    if run.recipe.model != PLAYGROUND:
        needs = tuple(need for need in needs if need != "base")
    return Stage(name, settings, needs, partial(work, run, chain))


def _write_report(run: Run, folder: Path) -> Facts:
    from calibsft.report.page import write_report
    from calibsft.report.responses import RESPONSES
    from calibsft.report.runs import summarise

    write_report(summarise(run.root, report_order(run.recipe), RESPONSES), folder)
    return {}
