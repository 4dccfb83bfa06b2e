"""The plan of a recipe: which stages it needs, what each reads, and what shapes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from calibsft.pipeline import Planned, plan, stage_names
from calibsft.pipeline.plan import up_to
from calibsft.recipe import load_recipe
from calibsft.report.lineage import Lineage
from calibsft.responses.parse import render
from calibsft.shipped import RECIPES, shipped_folders

SHIPPED = sorted(path for folder in shipped_folders(RECIPES) for path in folder.rglob("*.yaml"))
TINY = [
    "base", "eval-base", "rollout", "verify", "build", "sft", "eval-calibsft", "prior-base", "rlcr", "eval-rlcr",
    "prior-calibsft", "calibsft-rlcr", "eval-calibsft-rlcr", "report",
]  # fmt: skip
NO_PRIOR = "prior.contexts=null"


def planned(*overrides: str, recipe: str = "tiny") -> dict[str, Planned]:
    stages = plan(load_recipe(recipe, list(overrides)), Path("run"))
    found = {stage.name: stage for stage in stages}
    assert len(found) == len(stages), "a stage is planned once"
    return found


def shapes(found: dict[str, Planned]) -> dict[str, dict[str, Any]]:
    """What shapes each stage."""
    return {name: planned.stage.shaped_by() for name, planned in found.items()}


def changed(before: dict[str, Planned], after: dict[str, Planned]) -> set[str]:
    """The stages that are shaped otherwise."""
    old, new = shapes(before), shapes(after)
    return {name for name in old if old[name] != new[name]}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_stage_comes_once_and_after_all_that_it_needs(path: Path) -> None:
    before: set[str] = set()
    for name, stage in planned(recipe=str(path)).items():
        assert before.issuperset(stage.needs), name
        before.add(name)


def test_the_stages_of_tiny() -> None:
    found = planned()
    assert list(found) == TINY == stage_names(load_recipe("tiny"))
    needs = {name: set(stage.needs) for name, stage in found.items()}
    assert needs == {
        "base": set(),
        "eval-base": {"base"},
        "rollout": {"base"},
        "verify": {"rollout"},
        "build": {"rollout", "verify"},
        "sft": {"base", "build"},
        "eval-calibsft": {"sft"},
        "prior-base": {"base", "eval-base"},
        "rlcr": {"base", "rollout", "verify"},
        "eval-rlcr": {"rlcr"},
        "prior-calibsft": {"sft", "eval-calibsft"},
        "calibsft-rlcr": {"sft", "rollout", "verify"},
        "eval-calibsft-rlcr": {"calibsft-rlcr"},
        "report": {"prior-base", "prior-calibsft", "eval-rlcr", "eval-calibsft-rlcr"},
    }


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_report_comes_after_everything(path: Path) -> None:
    found = planned(recipe=str(path))
    before, pending = set[str](), ["report"]
    while pending:
        needs = found[pending.pop()].needs
        before.update(needs)
        pending += needs
    assert before == found.keys() - {"report"}


def test_a_run_up_to_some_stages_does_these_and_what_they_need() -> None:
    stages = list(planned().values())
    assert [stage.name for stage in up_to(stages, ["build", "eval-base"])] == TINY[:5]
    assert [stage.name for stage in up_to(stages, ["report"])] == TINY


def test_the_prior_is_measured_of_models_that_rl_starts_from_if_at_all() -> None:
    pipelines = "pipelines=[[calibsft], [rlvr, redoubt], [calibsft, rlcr]]"
    priors = {name for name in planned(pipelines) if name.startswith("prior")}
    assert priors == {"prior-base", "prior-rlvr", "prior-calibsft"}
    assert not any(name.startswith("prior") for name in planned(pipelines, NO_PRIOR))


def test_models_that_share_a_beginning_share_its_stages() -> None:
    found = planned("pipelines=[[rlvr, redoubt], [rlvr, calibsft, redoubt], [rlvr]]", NO_PRIOR)
    assert list(found) == [
        "base", "eval-base", "rollout", "verify", "rlvr", "eval-rlvr", "rlvr-redoubt", "eval-rlvr-redoubt",
        "rlvr-rollout", "rlvr-verify", "rlvr-build", "rlvr-sft", "eval-rlvr-calibsft", "rlvr-calibsft-redoubt",
        "eval-rlvr-calibsft-redoubt", "report",
    ]  # fmt: skip
    # CalibSFT after RLVR samples from that model; RL always takes its questions from the base model's rollouts.
    assert found["rlvr-rollout"].needs == ("rlvr",)
    assert set(found["rlvr-sft"].needs) == {"rlvr", "rlvr-build"}
    assert set(found["rlvr-redoubt"].needs) == {"rlvr", "rollout", "verify"}
    assert set(found["rlvr-calibsft-redoubt"].needs) == {"rlvr-sft", "rollout", "verify"}


def test_the_order_of_pipelines_does_not_change_the_stages() -> None:
    there = planned("pipelines=[[calibsft, rlcr], [rlcr], [calibsft]]")
    assert set(there) == set(TINY)
    assert shapes(there) == shapes(planned())


def test_no_steps_at_all_evaluate_the_base() -> None:
    assert list(planned("pipelines=[[]]")) == ["base", "eval-base", "report"]


@pytest.mark.parametrize(
    "steps, other_format, label",
    [
        ((), "", "Base"),
        (("calibsft",), "", "CalibSFT"),
        (("rlcr",), "", "Base→RLCR"),
        (("calibsft", "rlcr"), "", "CalibSFT→RLCR"),
        (("rlvr", "calibsft"), "", "RLVR→CalibSFT"),
        (("warmup",), "", "Warm-up"),
        (("warmup", "calibsft"), "", "Warm-up→CalibSFT"),
        (("warmup", "rlcr"), "", "Warm-up→RLCR"),
        (("rlvr", "redoubt"), "", "RLVR→ReDoubt"),
        (("rlvr", "calibsft", "redoubt"), "", "RLVR→CalibSFT→ReDoubt"),
        (("c3rl",), "integer", "Base→C3RL (integer)"),
        ((), "integer", "Base (integer)"),
    ],
)
def test_what_tables_and_figures_call_a_model(steps: tuple[str, ...], other_format: str, label: str) -> None:
    assert Lineage(steps, other_format).label == label


def test_a_method_of_another_format_learns_from_the_same_rollouts() -> None:
    found = planned("pipelines=[[calibsft], [c3rl], [calibsft, c3rl]]", NO_PRIOR)
    own = {
        "eval-base-integer": {"base"},
        "c3rl-integer": {"base", "rollout", "verify"},
        "eval-c3rl-integer": {"c3rl-integer"},
        "build-integer": {"rollout", "verify"},
        "sft-integer": {"base", "build-integer"},
        "eval-calibsft-integer": {"sft-integer"},
        "calibsft-c3rl-integer": {"sft-integer", "rollout", "verify"},
        "eval-calibsft-c3rl-integer": {"calibsft-c3rl-integer"},
    }
    assert {name: set(found[name].needs) for name in own} == own
    formats = {name: shape["format"] for name, shape in shapes(found).items() if "format" in shape}
    assert {formats[name] for name in own} == {"integer"}
    others = formats.keys() - own.keys()
    assert len(others) == 6 and {formats[name] for name in others} == {"probability"}
    assert shapes(found)["build-integer"]["from_format"] == "probability"
    assert {name for name in found if "integer" in name} == own.keys()


def test_a_trained_model_is_sampled_in_the_format_that_it_writes() -> None:
    found = planned("pipelines=[[rlvr, calibsft, c3rl]]", NO_PRIOR)
    assert shapes(found)["rlvr-rollout-integer"]["format"] == "integer"
    assert set(found["rlvr-build-integer"].needs) == {"rlvr-rollout-integer", "rlvr-verify-integer"}
    assert set(found["rlvr-calibsft-c3rl-integer"].needs) == {"rlvr-sft-integer", "rollout", "verify"}
    assert shapes(found)["rollout"]["format"] == "probability"


def test_a_method_in_its_own_format_needs_no_other_stages() -> None:
    found = planned("format=integer", "pipelines=[[calibsft], [calibsft, c3rl]]", NO_PRIOR)
    assert list(found) == [
        "base", "eval-base", "rollout", "verify", "build", "sft", "eval-calibsft", "calibsft-c3rl", "eval-calibsft-c3rl",
        "report",
    ]  # fmt: skip
    assert shapes(found)["calibsft-c3rl"]["format"] == "integer"


def test_methods_for_every_format_keep_the_recipe_s() -> None:
    found = planned("format=linguistic", "pipelines=[[rlcr], [calibsft, rlcr]]")
    assert set(found) == set(TINY)
    assert {shape["format"] for shape in shapes(found).values() if "format" in shape} == {"linguistic"}


EVALS = {name for name in TINY if name.startswith("eval-")}
PRIORS = {"prior-base", "prior-calibsft"}


@pytest.mark.parametrize(
    "change, shaped",
    [
        ("rl.learning_rate=0.5", {"rlcr", "calibsft-rlcr"}),
        ("rl.lora.rank=4", {"rlcr", "calibsft-rlcr"}),
        ("rl_methods.rlcr.steps=7", {"rlcr", "calibsft-rlcr"}),
        ("rl_methods.coca.steps=7", set()),
        ("sft.steps=7", {"sft"}),
        ("targets.mix=0.25", {"build"}),
        ("rollout.samples=8", {"rollout"}),
        ("questions.limit=5", {"rollout"}),
        ("base.steps=5", {"base"}),
        ("eval.limit=3", EVALS),
        ("prior.contexts=3", PRIORS),
        ("dtype=float16", EVALS | PRIORS | {"rollout"}),
        ("device=cuda:1", set()),
        ("engine.max_rows=7", set()),
        ("sft.save_every=7", set()),
        ("format=linguistic", set(TINY) - {"base", "report"}),
        ("template.enable_thinking=false", set(TINY) - {"base", "verify", "build", "report"}),
        ("seed=5", set(TINY) - PRIORS - {"verify", "report"}),
        ("name=other", {"report"}),
        ("jobs=1", set()),
        ("pipelines=[[rlcr], [calibsft, rlcr]]", set()),
    ],
)
def test_a_stage_s_settings_are_those_that_shape_it(change: str, shaped: set[str]) -> None:
    assert changed(planned(), planned(change)) == shaped


def test_benchmarks_shape_rl_that_is_evaluated_on_the_way() -> None:
    before, after = planned("rl.eval_every=5"), planned("rl.eval_every=5", "eval.limit=3")
    assert changed(before, after) == EVALS | {"rlcr", "calibsft-rlcr"}


def test_a_judge_shapes_what_it_rewards_and_what_it_grades() -> None:
    assert changed(planned(), planned("judge.model=m")) == EVALS | {"verify", "rlcr", "calibsft-rlcr"}


def test_a_method_may_differ_from_the_others() -> None:
    found = planned(
        "pipelines=[[rlvr, redoubt], [rlcr]]", "rl_methods.redoubt={steps: 3, learning_rate: 0.5}"
    )
    settings = {name: shape["rl"] for name, shape in shapes(found).items() if "rl" in shape}
    steps = {name: settings[name]["steps"] for name in ("rlvr", "rlcr", "rlvr-redoubt")}
    assert steps == {"rlvr": 60, "rlcr": 60, "rlvr-redoubt": 3}
    assert settings["rlvr-redoubt"]["learning_rate"] == 0.5
    assert settings["rlvr-redoubt"]["questions"] == 32, "the rest is the recipe's"


def test_a_model_of_one_s_own_has_no_base_stage() -> None:
    found = planned("model=mine/model", "pipelines=[[rlcr], [calibsft, rlcr]]")
    assert set(found) == set(TINY) - {"base"}
    assert all("base" not in stage.needs for stage in found.values())
    assert checkpoints(found) == {
        "rollout": "mine/model",
        "sft": "mine/model",
        "rlcr": "mine/model",
        "eval-base": "mine/model",
        "prior-base": "mine/model",
        "calibsft-rlcr": "run/sft/model",
        "eval-calibsft": "run/sft/model",
        "prior-calibsft": "run/sft/model",
        "eval-rlcr": "run/rlcr/model",
        "eval-calibsft-rlcr": "run/calibsft-rlcr/model",
    }


def checkpoints(found: dict[str, Planned]) -> dict[str, str]:
    """The model that each stage starts from."""
    return {name: model for name, one in found.items() if (model := getattr(one.stage, "model", ""))}


def test_where_the_models_of_a_run_lie() -> None:
    found = checkpoints(planned("pipelines=[[calibsft], [rlcr], [rlvr, calibsft, redoubt]]"))
    assert {name: model for name, model in found.items() if name.startswith("eval-")} == {
        "eval-base": "run/base/model",
        "eval-calibsft": "run/sft/model",
        "eval-rlcr": "run/rlcr/model",
        "eval-rlvr": "run/rlvr/model",
        "eval-rlvr-calibsft": "run/rlvr-sft/model",
        "eval-rlvr-calibsft-redoubt": "run/rlvr-calibsft-redoubt/model",
    }


def test_a_report_shows_the_models_that_rl_starts_from_before_those_that_it_made() -> None:
    models = [
        (), ("calibsft",), ("warmup",), ("rlvr", "calibsft"), ("warmup", "calibsft"), ("rlvr",), ("rlcr",), ("calibsft", "rlcr"), ("rlvr", "redoubt"),
        ("rlvr", "calibsft", "redoubt"),
    ]  # fmt: skip
    backwards = models[::-1]
    assert sorted(backwards, key=lambda steps: Lineage(steps).place) == models
    seeds = [Lineage((), seed=None), *(Lineage(("rlcr",), seed=seed) for seed in (0, 7))]
    assert sorted((seeds[2], seeds[0], seeds[1]), key=lambda model: model.place) == seeds


# Warm-up.

WARMED = (
    "warmup={rollout: {shots: SHOTS}}",
    "pipelines=[[warmup], [warmup, calibsft], [warmup, rlcr], [warmup, calibsft, rlcr]]",
)


@pytest.fixture
def shots(tmp_path: Path) -> str:
    """A file of worked examples."""
    path = tmp_path / "shots.jsonl"
    path.write_text(json.dumps({"question": "1*1", "response": render("", "1", "0.90")}) + "\n")
    return str(path)


def warmed(shots: str, *overrides: str, pipelines: str = WARMED[1]) -> dict[str, Planned]:
    return planned(WARMED[0].replace("SHOTS", shots), pipelines, NO_PRIOR, *overrides)


def test_a_warm_up_comes_first_and_all_else_starts_from_its_model(shots: str) -> None:
    found = warmed(shots)
    assert {name: set(stage.needs) for name, stage in found.items()} == {
        "base": set(),
        "eval-base": {"base"},
        "shots-rollout": {"base"},
        "shots-verify": {"shots-rollout"},
        "shots-build": {"shots-rollout", "shots-verify"},
        "warmup": {"base", "shots-build"},
        "eval-warmup": {"warmup"},
        "warmup-rollout": {"warmup"},
        "warmup-verify": {"warmup-rollout"},
        "warmup-build": {"warmup-rollout", "warmup-verify"},
        "warmup-sft": {"warmup", "warmup-build"},
        "eval-warmup-calibsft": {"warmup-sft"},
        "warmup-rlcr": {"warmup", "warmup-rollout", "warmup-verify"},
        "eval-warmup-rlcr": {"warmup-rlcr"},
        "warmup-calibsft-rlcr": {"warmup-sft", "warmup-rollout", "warmup-verify"},
        "eval-warmup-calibsft-rlcr": {"warmup-calibsft-rlcr"},
        "report": {
            "eval-base",
            "eval-warmup",
            "eval-warmup-calibsft",
            "eval-warmup-rlcr",
            "eval-warmup-calibsft-rlcr",
        },
    }
    models = checkpoints(found)
    assert models["shots-rollout"] == models["warmup"] == "run/base/model"
    assert models["warmup-rollout"] == models["warmup-sft"] == models["warmup-rlcr"] == "run/warmup/model"
    assert found["shots-rollout"].stage.rollout.shots == Path(shots)
    assert found["warmup-rollout"].stage.rollout.shots is None


def test_a_warm_up_imitates_all_responses_and_is_else_as_the_recipe_says(shots: str) -> None:
    found = warmed(
        shots,
        "warmup.rollout.samples=3",
        "warmup.sft.steps=5",
        "warmup.questions.offset=3000",
        "sft.beta=0.3",
    )
    built, tuned, plain = (shapes(found)[name] for name in ("shots-build", "warmup", "warmup-sft"))
    assert (built["targets"]["name"], built["targets"]["balance"]) == ("stated", False)
    assert (tuned["sft"]["loss"], tuned["sft"]["steps"]) == ("full-ce", 5)
    assert (plain["sft"]["loss"], plain["sft"]["beta"], plain["sft"]["steps"]) == ("calibsft", 0.3, 400)
    assert tuned["sft"] | {"loss": "calibsft", "steps": 400, "beta": 0.3} == plain["sft"]
    asked, main = (shapes(found)[name] for name in ("shots-rollout", "warmup-rollout"))
    assert asked["rollout"] | {"samples": 50} == main["rollout"] and asked["rollout"]["samples"] == 3
    assert (asked["questions"]["limit"], asked["questions"]["offset"]) == (3000, 3000)
    assert main["questions"]["offset"] is None


@pytest.mark.parametrize(
    "change, shaped",
    [
        ("warmup.rollout.samples=3", {"shots-rollout"}),
        ("warmup.questions.limit=3", {"shots-rollout"}),
        ("warmup.sft.learning_rate=0.5", {"warmup"}),
        ("targets.mix=0.25", {"warmup-build"}),
        ("sft.steps=7", {"warmup", "warmup-sft"}),
    ],
)
def test_settings_of_a_warm_up_shape_its_own_stages_alone(shots: str, change: str, shaped: set[str]) -> None:
    assert changed(warmed(shots), warmed(shots, change)) == shaped


def test_a_warm_up_shares_nothing_with_what_starts_from_the_base(shots: str) -> None:
    both = warmed(shots, pipelines="pipelines=[[calibsft], [warmup, calibsft]]")
    assert {
        "rollout",
        "build",
        "sft",
        "shots-rollout",
        "shots-build",
        "warmup",
        "warmup-rollout",
        "warmup-sft",
    } <= set(both)
    alone = planned("pipelines=[[calibsft]]", NO_PRIOR)
    assert all(shapes(both)[name] == shape for name, shape in shapes(alone).items())


def test_a_warm_up_in_another_format_rewrites_the_same_responses(shots: str) -> None:
    found = warmed(shots, pipelines="pipelines=[[warmup, calibsft, c3rl]]")
    assert set(found["shots-build-integer"].needs) == {"shots-rollout", "shots-verify"}
    assert (
        shapes(found)["shots-build-integer"]["from_format"]
        == shapes(found)["shots-rollout"]["format"]
        == "probability"
    )
    assert (
        shapes(found)["warmup-integer"]["format"]
        == shapes(found)["warmup-rollout-integer"]["format"]
        == "integer"
    )
    assert set(found["warmup-calibsft-c3rl-integer"].needs) == {
        "warmup-sft-integer", "warmup-rollout-integer", "warmup-verify-integer",
    }  # fmt: skip


def test_every_training_seed_has_its_own_warm_up_on_the_same_responses(shots: str) -> None:
    found = warmed(shots, SEEDS, pipelines="pipelines=[[warmup, rlcr]]")
    assert {"shots-rollout", "shots-build", "warmup-seed0", "warmup-seed7", "warmup-rollout-seed7"} <= set(
        found
    )
    assert set(found["warmup-rlcr-seed7"].needs) == {
        "warmup-seed7",
        "warmup-rollout-seed7",
        "warmup-verify-seed7",
    }
    assert seeds_of(found)["warmup-seed7"] == 7 and seeds_of(found)["warmup-rollout-seed7"] == 0


# Several training seeds.

SEEDS = "training_seeds=[0, 7]"


def seeds_of(found: dict[str, Planned]) -> dict[str, int]:
    return {name: shape["seed"] for name, shape in shapes(found).items() if "seed" in shape}


def test_training_seeds_repeat_the_trainings_and_what_depends_on_them_alone() -> None:
    found = planned(SEEDS)
    shared = {"base", "eval-base", "rollout", "verify", "build", "prior-base", "report"}
    trained = {
        "sft",
        "eval-calibsft",
        "rlcr",
        "eval-rlcr",
        "prior-calibsft",
        "calibsft-rlcr",
        "eval-calibsft-rlcr",
    }
    assert shared | trained == set(TINY)
    assert set(found) == shared | {f"{name}-seed{seed}" for name in trained for seed in (0, 7)}
    for seed in (0, 7):
        assert set(found[f"sft-seed{seed}"].needs) == {"base", "build"}
        assert set(found[f"rlcr-seed{seed}"].needs) == {"base", "rollout", "verify"}
        assert set(found[f"calibsft-rlcr-seed{seed}"].needs) == {f"sft-seed{seed}", "rollout", "verify"}
        assert found[f"eval-calibsft-seed{seed}"].needs == (f"sft-seed{seed}",)
    # Only trainings have the training seed: what is sampled and evaluated keeps the recipe's.
    assert {name for name, seed in seeds_of(found).items() if seed == 7} == {
        "sft-seed7", "rlcr-seed7", "calibsft-rlcr-seed7",
    }  # fmt: skip
    models = checkpoints(found)
    assert models["eval-calibsft-seed7"] == models["calibsft-rlcr-seed7"] == "run/sft-seed7/model"
    assert models["rlcr-seed7"] == "run/base/model"


def test_rollouts_of_a_trained_model_are_those_of_its_seed() -> None:
    found = planned(SEEDS, "pipelines=[[rlvr, calibsft, redoubt]]", NO_PRIOR)
    assert set(found["rlvr-sft-seed7"].needs) == {"rlvr-seed7", "rlvr-build-seed7"}
    assert found["rlvr-rollout-seed7"].needs == ("rlvr-seed7",)
    assert set(found["rlvr-calibsft-redoubt-seed7"].needs) == {"rlvr-sft-seed7", "rollout", "verify"}
    assert seeds_of(found)["rlvr-rollout-seed7"] == seeds_of(found)["rlvr-build-seed7"] == 0


def test_another_format_and_a_seed_are_both_in_the_name() -> None:
    found = planned(SEEDS, "pipelines=[[calibsft, c3rl]]", NO_PRIOR)
    assert {"sft-integer-seed0", "calibsft-c3rl-integer-seed7", "eval-calibsft-c3rl-integer-seed7"} <= set(
        found
    )
    assert Lineage(("calibsft", "c3rl"), "integer", 7).label == "CalibSFT→C3RL (integer), seed 7"
    assert Lineage((), "integer", 7).label == "Base (integer)"


def test_one_training_seed_keeps_the_names_and_sets_the_trainings_alone() -> None:
    found = planned("training_seeds=[7]")
    assert list(found) == TINY
    assert {name for name, seed in seeds_of(found).items() if seed == 7} == {"sft", "rlcr", "calibsft-rlcr"}
    assert set(seeds_of(planned("seed=3")).values()) == {3}
