"""The shipped recipes have the paper's settings; every number here is from its text, not from our defaults."""

from pathlib import Path

import pytest

from calibsft.benchmarks import BENCHMARKS
from calibsft.pipeline import plan
from calibsft.recipe import Recipe, load_recipe, shipped_recipes

PAPER = ["gemma-4-e2b", "olmo-3-7b", "qwen3-8b/calibsft", "qwen3-8b/methods"]
METHODS = ["rlvr", "rlcr", "coca", "dcpo", "c3rl", "redoubt"]


@pytest.fixture(params=PAPER)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return load_recipe(request.param)


def test_they_are_shipped() -> None:
    assert set(PAPER) <= set(shipped_recipes())


def test_rollouts_targets_and_fine_tuning(recipe: Recipe) -> None:
    rollout, sft = recipe.rollout, recipe.sft
    assert (recipe.seed, recipe.format, recipe.questions.source) == (43, "probability", "deepscaler")
    assert (recipe.questions.limit, recipe.questions.subset, recipe.questions.offset) == (None, None, None)
    assert (rollout.samples, rollout.temperature, rollout.top_p, rollout.max_new_tokens) == (
        50,
        1.0,
        0.95,
        8192,
    )
    target = recipe.targets.model_dump()
    assert (target["name"], target["mix"], target["balance"], target["min_group"]) == (
        "calibsft",
        0.5,
        True,
        1,
    )
    assert (sft.loss, sft.beta, sft.steps, sft.batch_size, sft.max_tokens) == (
        "calibsft",
        0.5,
        180,
        256,
        8192,
    )
    assert (sft.learning_rate, sft.warmup_steps, sft.lora) == (2e-6, 10, None)


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str) -> None:
    rl = load_recipe("qwen3-8b/methods").rl_of(method)
    assert rl.steps == (80 if method == "redoubt" else 160)
    assert rl.kl == (1e-3 if method == "rlvr" else 0)
    assert (rl.questions, rl.group_size, rl.updates) == (64, 8, 2)
    assert (rl.learning_rate, rl.warmup_steps, rl.final_rate) == (2e-6, 10, 0.5)
    assert (rl.clip_low, rl.clip_high, rl.dual_clip) == (0.2, 0.28, None)
    assert (rl.max_prompt_tokens, rl.max_new_tokens, rl.max_batches) == (2048, 8192, 20)
    unchanged = (
        "mean_only",
        "leave_one_out",
        "segment_loss",
        "keep_unanimous",
        "all_groups",
        "overlong_buffer",
    )
    assert not any(rl.option(name) for name in unchanged)


def test_every_pipeline_of_the_paper() -> None:
    found = set(load_recipe("qwen3-8b/methods").pipelines)
    from_both = {steps for method in METHODS[:-1] for steps in ((method,), ("calibsft", method))}
    assert found == from_both | {("calibsft",), ("rlvr", "redoubt"), ("rlvr", "calibsft", "redoubt")}


def test_evaluation(recipe: Recipe) -> None:
    settings = recipe.eval
    assert (settings.temperature, settings.max_new_tokens, settings.limit) == (0.6, 16384, None)
    asked = {name: settings.asked(name) for name in settings.benchmarks}
    samples = {name: own.samples or BENCHMARKS[name].samples for name, own in asked.items()}
    assert all(number == (32 if "aime" in name else 4) for name, number in samples.items())
    assert {name: own.subset for name, own in asked.items() if own.subset} == {"hotpotqa": 1000}


def test_the_sixteen_benchmarks() -> None:
    for name in ("qwen3-8b/calibsft", "qwen3-8b/methods", "olmo-3-7b"):
        recipe = load_recipe(name)
        domains = [BENCHMARKS[name].domain for name in recipe.eval.benchmarks]
        assert len(set(recipe.eval.benchmarks)) == 16 and domains == ["id"] * 8 + ["ood"] * 8
        assert recipe.judge.model == "Qwen/Qwen3-8B", "TriviaQA"


def test_the_recipes_of_one_model_share_their_first_stages() -> None:
    first, second = (load_recipe(f"qwen3-8b/{name}") for name in ("calibsft", "methods"))
    assert (first.name, first.seed) == (second.name, second.seed), "so they write to one folder"
    shared = {p.name: p.stage.shaped_by() for p in plan(first, Path("run")) if p.name != "report"}
    found = {p.name: p.stage.shaped_by() for p in plan(second, Path("run"))}
    assert len(shared) == 6 and {name: found[name] for name in shared} == shared
