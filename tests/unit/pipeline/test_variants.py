"""Variants of steps: settings of their own, with every stage shared that they do not change."""

from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.pipeline import Planned, plan, plan_models
from calibsft.pipeline.chain import Chain
from calibsft.recipe import load_recipe
from calibsft.report.lineage import Lineage

VARIANTS = (
    "variants={unmixed: {targets: {mix: 0}}, plain-ce: {sft: {loss: full-ce}}, budgets: {eval: {budgets: [8]}},"
    " digits: {format: integer}, centred: {rl_methods: {rlcr: {mean_only: true}}}, short: {base: {steps: 5}},"
    " uait: {targets: {name: uait}}, other: {model: some/model}, more: {rollout: {samples: 60}}}"
)
COMMON = {"base", "eval-base", "rollout", "verify", "report"}


def planned(pipelines: str, *overrides: str) -> dict[str, Planned]:
    recipe = load_recipe("tiny", ["prior.contexts=null", VARIANTS, f"pipelines={pipelines}", *overrides])
    return {stage.name: stage for stage in plan(recipe, Path("run"))}


@pytest.mark.parametrize(
    "pipeline, own",
    [
        ("calibsft@unmixed", {"build@unmixed", "sft@unmixed", "eval-calibsft@unmixed"}),
        ("calibsft@plain-ce", {"build", "sft@plain-ce", "eval-calibsft@plain-ce"}),
        ("calibsft@uait", {"evidence@uait", "build@uait", "sft@uait", "eval-calibsft@uait"}),
        (
            "calibsft@more",
            {"rollout@more", "verify@more", "build@more", "sft@more", "eval-calibsft@more"}
            - {"rollout", "verify"},
        ),
        ("calibsft@budgets", {"build", "sft", "eval-calibsft@budgets"}),
        ("calibsft@centred", {"build", "sft", "eval-calibsft"}),
        ("rlcr@centred", {"rlcr@centred", "eval-rlcr@centred"}),
        ("rlcr@budgets", {"rlcr", "eval-rlcr@budgets"}),
        ("rlcr@digits", {"eval-base-integer", "rlcr-integer", "eval-rlcr-integer"}),
    ],
)
def test_a_variant_has_the_stages_that_it_changes_and_what_follows(pipeline: str, own: set[str]) -> None:
    shared = COMMON - {"rollout", "verify"} if "more" in pipeline else COMMON
    if "digits" in pipeline:
        shared = shared - {"eval-base"}
    assert planned(f"[[{pipeline}]]").keys() == shared | own


def test_the_settings_of_a_variant_reach_its_stages_alone() -> None:
    found = planned("[[calibsft], [calibsft@unmixed, rlcr]]")
    mixes = {name: found[name].stage.targets.mix for name in ("build", "build@unmixed")}  # type: ignore[attr-defined]
    assert mixes == {"build": 0.5, "build@unmixed": 0.0}
    assert set(found["sft@unmixed"].needs) == {"base", "build@unmixed"}
    assert set(found["calibsft@unmixed-rlcr"].needs) == {"sft@unmixed", "rollout", "verify"}
    assert found["calibsft@unmixed-rlcr"].stage.variant == ""  # type: ignore[attr-defined]
    assert found["sft@unmixed"].stage.variant == "unmixed"  # type: ignore[attr-defined]


def test_another_format_is_one_stage_whoever_asks_for_it() -> None:
    asked, needed = planned("[[calibsft, rlcr@digits]]"), planned("[[calibsft, c3rl]]")
    assert {"build-integer", "sft-integer", "eval-calibsft-integer"} <= asked.keys() & needed.keys()
    assert asked["sft-integer"].stage == needed["sft-integer"].stage


def test_a_base_of_its_own_has_everything_of_its_own() -> None:
    found = planned("[[base@short, calibsft, rlcr]]")
    assert found.keys() == {
        "base@short", "eval-base@short", "base@short-rollout", "base@short-verify", "base@short-build", "base@short-sft",
        "eval-base@short-calibsft", "base@short-calibsft-rlcr", "eval-base@short-calibsft-rlcr", "report",
    }  # fmt: skip
    loaded = planned("[[base@other, calibsft]]")
    assert "base@other" not in loaded
    assert loaded["base@other-rollout"].stage.model == "some/model"  # type: ignore[attr-defined]


def test_models_know_their_stages() -> None:
    recipe = load_recipe("tiny", [VARIANTS, "pipelines=[[calibsft@budgets, rlcr]]", "training_seeds=[3, 4]"])
    found = plan_models(recipe, Path("run"))
    tuned = found[Chain(("calibsft@budgets",), seed=3)]
    assert (tuned.training, tuned.data, tuned.evaluation) == (
        "sft-seed3",
        "build",
        "eval-calibsft@budgets-seed3",
    )
    assert found[Chain(("calibsft@budgets", "rlcr"), seed=4)].training == "calibsft-rlcr-seed4"


@pytest.mark.parametrize(
    "pipelines, words",
    [
        ("[[calibsft@unmixde]]", ["unmixde", "unmixed"]),
        ("[[calibsft, base@short]]", ["base@short", "first step"]),
        ("[[base, calibsft]]", ["base", "only its variant is named"]),
        ("[[base@unmixed]]", ["variants.unmixed.targets", "base or model"]),
    ],
)
def test_a_wrong_variant_is_refused_with_its_name(pipelines: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        planned(pipelines)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    "variants, words",
    [
        ("{odd: {seed: 3}}", ["variants.odd.seed", "whole run"]),
        ("{odd: {sft: {steps: 0}}}", ["variants.odd", "sft.steps"]),
        ("{odd: {sftt: {}}}", ["variants.odd", "sftt", "sft"]),
        ("{Odd name: {}}", ["variants", "Odd name"]),
    ],
)
def test_a_wrong_setting_of_a_variant_is_refused(variants: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        load_recipe("tiny", [f"variants={variants}"])
    assert all(word in str(error.value) for word in words)


def test_a_recipe_without_variants_says_where_they_go() -> None:
    with pytest.raises(InputError, match="'half', and the recipe has none; add it under variants"):
        load_recipe("tiny", ["pipelines=[[calibsft@half]]"])


def test_a_pipeline_has_one_format() -> None:
    with pytest.raises(InputError, match="two formats"):
        planned("[[rlcr@words, c3rl]]", "variants={words: {format: linguistic}}")


@pytest.mark.parametrize(
    "steps, title",
    [
        (("calibsft@unmixed",), "CalibSFT (unmixed)"),
        (("rlcr@centred",), "Base→RLCR (centred)"),
        (("calibsft@unmixed", "rlcr"), "CalibSFT (unmixed)→RLCR"),
        (("base@llama",), "Base (llama)"),
        (("base@llama", "calibsft"), "Base (llama)→CalibSFT"),
    ],
)
def test_what_reports_call_a_variant(steps: tuple[str, ...], title: str) -> None:
    assert Lineage(steps).title == title


def test_the_counterpart_of_a_variant_of_calibsft_is_without_it() -> None:
    found = Lineage(("base@llama", "calibsft@unmixed", "rlcr"), seed=1)
    assert found.calibrated and found.counterpart == Lineage(("base@llama", "rlcr"), seed=1)
    assert Lineage(("base@llama", "calibsft"), seed=1).counterpart == Lineage(("base@llama",))


def test_a_variant_with_another_target_leaves_settings_of_the_first_behind() -> None:
    recipe = load_recipe("tiny", [VARIANTS, "targets.mix=0.25", "targets.redraws=3"])
    assert recipe.varied("uait").targets.redraws == 3
    assert load_recipe("tiny", [VARIANTS, "targets.mix=0.25"]).varied("unmixed").targets.mix == 0  # type: ignore[attr-defined]


OWN_MODELS = (
    "variants={same: {targets: {name: sayself}, evidence: {embedding_model: 'run:base'}},"
    " scored: {targets: {name: lovec}, judge: {model: 'run:base@big'}}, big: {base: {steps: 9}}}"
)


def test_evidence_may_be_measured_by_models_of_the_same_run() -> None:
    found = planned("[[base@big], [calibsft@same], [calibsft@scored]]", OWN_MODELS)
    encoder, judge = (found[f"evidence@{name}"] for name in ("same", "scored"))
    assert encoder.stage.evidence.embedding_model == "run/base/model" and "base" in encoder.needs  # type: ignore[attr-defined]
    assert judge.stage.judge.model == "run/base@big/model" and "base@big" in judge.needs  # type: ignore[attr-defined]


def test_a_variant_with_another_judge_grades_the_shared_responses_again() -> None:
    found = planned("[[base@big], [calibsft@scored]]", OWN_MODELS)
    assert "rollout@scored" not in found
    assert set(found["build@scored"].needs) == {"rollout", "verify@scored", "evidence@scored"}


def test_a_model_of_the_run_must_be_made_before_it_is_asked() -> None:
    with pytest.raises(InputError, match=r"judge.model = run:base@big.*put one that does before"):
        planned("[[calibsft@scored]]", OWN_MODELS)
