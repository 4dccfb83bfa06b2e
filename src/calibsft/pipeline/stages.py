"""What each stage does: small functions that bring settings, inputs and one room of the package together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import GRADIENT, JUDGE_CACHE, write_json
from calibsft.errors import InputError
from calibsft.pipeline.chain import Chain
from calibsft.progress import Progress, say, warn
from calibsft.questions import PLAYGROUND
from calibsft.recipe import CALIBSFT, Recipe
from calibsft.responses.formats import Format, get_format

Facts = dict[str, Any]

# Within these bounds the playground shows something: a weaker base has no high targets, a stronger one no low ones.
PLAYGROUND_ACCURACY = (0.3, 0.65)
PLAYGROUND_QUESTIONS = 3000


@dataclass(frozen=True, slots=True)
class Run:
    """A recipe and the folder that its stages fill."""

    recipe: Recipe
    root: Path

    def model(self, chain: Chain) -> str:
        """The checkpoint of `chain`: a folder of this run, or for the base whatever the recipe names."""
        if not chain.steps:
            return str(self.root / "base" / "model") if self.recipe.model == PLAYGROUND else self.recipe.model
        return str(self.root / model_stage(chain) / "model")

    def training_seed(self, chain: Chain) -> int:
        """The seed of the last training of `chain`."""
        first = (*self.recipe.training_seeds, self.recipe.seed)[0]
        return first if chain.seed is None else chain.seed

    def format(self, chain: Chain) -> Format:
        return get_format(chain.other_format or self.recipe.format)


def model_stage(chain: Chain) -> str:
    """The stage that makes the model of `chain`."""
    if not chain.steps:
        return "base"
    return chain.parent.stage("sft") if chain.steps[-1] == CALIBSFT else chain.stage()


def train_base(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.playground.base import train_base

    settings = run.recipe.base
    with Progress("base", settings.steps, "steps") as progress:
        train_base(settings, run.recipe.seed, folder / "model", progress)
    return {"device": "cpu"}


def collect_rollouts(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.rollouts.load import load_collector

    recipe, settings = run.recipe, run.recipe.rollout
    collector = load_collector(
        run.model(chain), recipe.engine, run.format(chain), settings, recipe.seed, recipe.device, recipe.dtype
    )
    questions = training_questions(recipe)
    tokens = collector.collect(
        questions, lambda _: settings.samples, folder, settings.shard_questions, folder.name
    )
    return {"tokens": tokens, "device": collector.engine.device, "questions": len(questions)}


def training_questions(recipe: Recipe) -> list[Any]:
    """The questions that responses are sampled for."""
    if recipe.questions.source == PLAYGROUND:
        from calibsft.playground import world

        return world.training_questions(recipe.questions.limit or PLAYGROUND_QUESTIONS)
    from calibsft.questions import load_source

    return load_source(recipe.questions.source, recipe.questions.data_dir)[: recipe.questions.limit]


def verify_rollouts(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.verify.judge import load_judge
    from calibsft.verify.verdicts import verify_folder

    recipe = run.recipe
    judge = load_judge(recipe.judge, folder / JUDGE_CACHE, recipe.device, recipe.dtype)
    rollouts = run.root / chain.stage("rollout")
    graders = verify_folder(rollouts, run.format(chain), folder, folder.name, judge)
    accuracy = pl.scan_parquet(folder / "part-*.parquet").select(pl.col("correct").mean()).collect().item()
    if accuracy is None:
        raise InputError(
            f"{run.recipe.questions.source}: no gold answer could be read, so nothing is graded; mend the golds"
        )
    low, high = PLAYGROUND_ACCURACY
    if run.recipe.model == PLAYGROUND and not chain.steps and not low <= accuracy <= high:
        warn(
            f"the base model is right in {accuracy:.0%} of its responses; {low:.0%} to {high:.0%} is where targets spread: change base.steps"
        )
    return {"verifier": graders, "accuracy": accuracy}


def build_training_set(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.report.terminal import build_lines
    from calibsft.targets.build import build
    from calibsft.targets.pool import pool_of_run

    recipe, sampled = run.recipe, chain.sampled
    rollouts = run.root / sampled.stage("rollout")
    pool = pool_of_run(rollouts, run.root / sampled.stage("verify"))
    written, sampled_in = run.format(chain), run.format(sampled)
    summary = build(pool, recipe.targets, written, recipe.seed, str(rollouts), folder, sampled_in)
    say("\n".join(build_lines(summary)))
    return {"label": chain.label, "rows": summary.rows, "group_size": summary.group_size}


def run_sft(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.sft.fine_tune import fine_tune
    from calibsft.targets.build import SFT_TABLE

    recipe = run.recipe
    data = run.root / chain.stage("build") / SFT_TABLE
    return fine_tune(
        run.model(chain),
        data,
        recipe.sft,
        run.format(chain),
        run.training_seed(chain),
        folder,
        recipe.device,
        folder.name,
    )


def run_rl(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.rl.methods import get_method
    from calibsft.rl.questions import read_questions
    from calibsft.rl.train import train_policy
    from calibsft.verify.judge import load_judge

    recipe, base = run.recipe, chain.base.sampled
    questions, rates = read_questions(run.root / base.stage("rollout"), run.root / base.stage("verify"))
    facts = train_policy(
        run.model(chain.parent),
        questions,
        rates,
        get_method(chain.steps[-1]),
        recipe.rl_of(chain.steps[-1]),
        run.format(chain),
        run.training_seed(chain),
        folder,
        recipe.device,
        recipe.eval,
        folder.name,
        load_judge(recipe.judge, folder / JUDGE_CACHE, recipe.device, recipe.dtype),
        recipe.engine,
    )
    start = {"start": chain.parent.label, "calibrated": CALIBSFT in chain.steps}
    return {**facts, **_identity(run, chain), **start}


def evaluate(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.evaluation import evaluate_model

    recipe = run.recipe
    facts = evaluate_model(
        run.model(chain),
        recipe.engine,
        recipe.eval,
        recipe.judge,
        run.format(chain),
        recipe.seed,
        folder,
        recipe.device,
        recipe.dtype,
        folder.name,
    )
    return {**_identity(run, chain), "steps": list(chain.steps), **facts}


def _identity(run: Run, chain: Chain) -> Facts:
    """Which model a stage is about, for its manifest."""
    named = {"label": chain.label, "title": chain.title}
    return named | ({"training_seed": run.training_seed(chain)} if chain.steps else {})


def measure_prior(run: Run, chain: Chain, folder: Path) -> Facts:
    from calibsft.models import load_model, load_tokenizer
    from calibsft.rl.prior_gradient import gradient_shares, read_contexts

    recipe, name = run.recipe, run.model(chain)
    assert recipe.prior.contexts is not None
    tokenizer, confidence_format = load_tokenizer(name), run.format(chain)
    contexts = read_contexts(run.root / chain.evaluation, recipe.prior.contexts, tokenizer, confidence_format)
    model = load_model(name, recipe.device, recipe.dtype)
    with Progress(folder.name, len(confidence_format.words), "values") as progress:
        write_json(folder / GRADIENT, gradient_shares(model, contexts, progress))
    return {"label": chain.label, "device": str(model.device)}
