"""Recipes: all that ship load, overrides, and how mistakes are told."""

import re
from pathlib import Path

import pytest
import yaml

from calibsft.errors import InputError
from calibsft.pipeline import load_checked
from calibsft.recipe import Recipe, find_recipe, load_recipe, shipped_machines, shipped_recipes
from calibsft.settings import parse_overrides, validated
from calibsft.sft.settings import SftSettings
from calibsft.shipped import RECIPES, shipped_folders

SHIPPED = sorted(path for folder in shipped_folders(RECIPES) for path in folder.rglob("*.yaml"))


def refusal(name: str, overrides: list[str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_checked(name, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_recipes_ship() -> None:
    assert {"tiny", "tiny-rl"} <= {path.stem for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_loads_and_survives_being_printed(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(path))
    assert load_recipe(written(tmp_path, recipe.to_yaml())) == recipe


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_begins_with_its_command(path: Path) -> None:
    name = next(
        str(path.relative_to(d).with_suffix("")) for d in shipped_folders(RECIPES) if path.is_relative_to(d)
    )
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any(f"calibsft run {name}" in line for line in header)


def test_a_recipe_is_found_by_name_and_by_path() -> None:
    path = find_recipe("tiny")
    assert path.name == "tiny.yaml"
    assert find_recipe(str(path)) == path


def test_a_table_is_found_from_here_or_beside_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "recipes", tmp_path / "here"
    for folder in (beside, here):
        folder.mkdir()
    monkeypatch.chdir(here)
    (beside / "mine.yaml").write_text(
        "questions: {source: q.jsonl}\neval: {benchmarks: [e.jsonl.gz, cross]}\nrollout: {shots: s.csv}\n"
    )
    for name in ("q.jsonl", "e.jsonl.gz", "cross"):
        (beside / name).touch()
    (here / "q.jsonl").touch()
    recipe = load_recipe(str(beside / "mine.yaml"))
    assert recipe.questions.source == "q.jsonl"
    assert recipe.eval.benchmarks == (str(beside / "e.jsonl.gz"), "cross")
    assert recipe.rollout.shots == Path("s.csv"), (
        "it is nowhere, and is reported under the name that was given"
    )


def test_every_default_is_printed() -> None:
    printed = yaml.safe_load(Recipe(name="x").to_yaml())
    assert set(printed) == set(Recipe.model_fields)
    assert printed["sft"]["learning_rate"] == 2e-6 and printed["rollout"]["samples"] == 50


def test_a_recipe_without_a_name_is_called_by_its_file(tmp_path: Path) -> None:
    assert load_recipe(written(tmp_path, "seed: 3\n")).name == "mine"


def test_overrides_reach_nested_keys_and_new_sections(tmp_path: Path) -> None:
    path = written(tmp_path, "seed: 3\nsft:\n")
    recipe = load_recipe(path, ["sft.lora.rank=4", "rollout.stop=[a, b]", "seed=5", "sft.steps=7"])
    assert recipe.sft.lora is not None and recipe.sft.lora.rank == 4
    assert recipe.rollout.stop == ("a", "b")
    assert (recipe.seed, recipe.sft.steps) == (5, 7)


def test_overrides_reach_the_settings_of_one_benchmark(tmp_path: Path) -> None:
    text = "eval:\n  benchmarks: [gsm8k, hotpotqa]\n  per_benchmark:\n    hotpotqa: {subset: 1000}\n"
    changes = ["eval.per_benchmark.hotpotqa.samples=1", "eval.per_benchmark.gsm8k.limit=100"]
    recipe = load_recipe(written(tmp_path, text), changes)
    hotpotqa, gsm8k = recipe.eval.asked("hotpotqa"), recipe.eval.asked("gsm8k")
    assert (hotpotqa.subset, hotpotqa.samples, hotpotqa.limit) == (1000, 1, None)
    assert (gsm8k.subset, gsm8k.samples, gsm8k.limit) == (None, None, 100)
    again = load_recipe(written(tmp_path, recipe.to_yaml()))
    assert again == recipe


def test_a_recipe_without_pipelines_is_calibsft_alone(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path, "seed: 3\n"))
    assert (recipe.pipelines, recipe.jobs) == ((("calibsft",),), 1)


def test_a_micro_batch_may_be_larger_than_an_update() -> None:
    recipe = load_recipe("tiny", ["rl.questions=4", "rl.micro_batch_size=100"])
    assert (recipe.rl.questions, recipe.rl.micro_batch_size) == (4, 100)


def test_rl_defaults_are_the_paper_s() -> None:
    rl = Recipe(name="x").rl
    found = (rl.questions, rl.group_size, rl.updates, rl.learning_rate, rl.warmup_steps, rl.final_rate)
    assert found == (64, 8, 2, 2e-6, 10, 0.5)
    assert (rl.clip_low, rl.clip_high, rl.max_prompt_tokens, rl.max_new_tokens, rl.max_batches) == (
        0.2,
        0.28,
        2048,
        8192,
        20,
    )
    assert rl.steps is rl.kl is rl.dual_clip is None, "the method's own"


def test_what_differs_for_a_method_leaves_its_other_settings_alone() -> None:
    recipe = load_recipe(
        "tiny", ["rl.lora.rank=4", "rl_methods.coca.lora.alpha=7", "rl_methods.coca.keep_unanimous=true"]
    )
    coca, rlcr = recipe.rl_of("coca"), recipe.rl_of("rlcr")
    assert coca.option("keep_unanimous") and rlcr.option("keep_unanimous") is None
    assert coca.steps == rlcr.steps == recipe.rl.steps and rlcr.lora == recipe.rl.lora
    assert coca.lora is not None and (coca.lora.rank, coca.lora.alpha) == (4, 7)


def test_a_warm_up_takes_what_it_leaves_open_from_the_recipe_and_survives_being_printed(
    tmp_path: Path,
) -> None:
    given = [
        "warmup.rollout.shots=s.jsonl",
        "warmup.rollout.temperature=0.7",
        "warmup.sft.lora.rank=4",
        "sft.steps=7",
    ]
    recipe = load_recipe("tiny", given)
    warmup = recipe.warmup
    assert warmup is not None and recipe.rollout.shots is None and recipe.sft.lora is None
    assert (warmup.rollout.temperature, warmup.rollout.samples, warmup.rollout.max_new_tokens) == (
        0.7,
        50,
        32,
    )
    assert (warmup.sft.steps, warmup.sft.learning_rate, warmup.sft.loss) == (7, 5e-4, "full-ce")
    assert warmup.sft.lora is not None and warmup.sft.lora.rank == 4
    assert warmup.questions == recipe.questions
    (tmp_path / "printed.yaml").write_text(recipe.to_yaml())
    assert load_recipe(str(tmp_path / "printed.yaml")) == recipe
    # A printed recipe is complete, so a change of another section does not reach the warm-up.
    assert load_recipe(str(tmp_path / "printed.yaml"), ["sft.steps=9"]).warmup == warmup


def test_examples_that_do_not_exist_are_told_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: no such file"):
        load_checked("tiny", ["pipelines=[[warmup]]", "warmup.rollout.shots=none.jsonl"])


def test_the_last_override_of_a_key_wins() -> None:
    assert parse_overrides(["steps=1", "steps=2"]) == {"steps": 2}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_overrides(["model=a=b"]) == {"model": "a=b"}


@pytest.mark.parametrize(
    "override, message",
    [
        ("rollout.sample=8", "unknown key 'rollout.sample'; did you mean 'rollout.samples'?"),
        ("sft.lora.rnk=8", "unknown key 'sft.lora.rnk'; did you mean 'sft.lora.rank'?"),
        ("zzz=8", "unknown key 'zzz'; known: name, seed, training_seeds, format"),
        (
            "rollout.samples=0",
            "rollout.samples = 0: input should be greater than or equal to 1; correct that key",
        ),
        ("targets.samples=60", "targets.samples 60 exceeds rollout.samples 50; change either"),
        ("rollout.samples=many", "rollout.samples = 'many': input should be a valid integer"),
        ("targets.mix=1.5", "targets.mix = 1.5: input should be less than or equal to 1"),
        ("targets.mix=.nan", "targets.mix = nan: input should be a finite number"),
        ("sft.learning_rate=.inf", "sft.learning_rate = inf: input should be a finite number"),
        ("sft.loss=calib", "sft.loss = 'calib'; did you mean 'calibsft'?"),
        ("format=inteer", "unknown confidence format 'inteer'; did you mean 'integer'?"),
        ("targets.name=calib", "unknown target 'calib'; did you mean 'calibsft'?"),
        (
            "eval.per_benchmark.multiply-1.limt=3",
            "unknown key 'eval.per_benchmark.multiply-1.limt'; did you mean 'eval.per_benchmark.multiply-1.limit'?",
        ),
        (
            "eval.per_benchmark.multiply-9.limit=3",
            "unknown benchmark in eval.per_benchmark 'multiply-9'; did you mean",
        ),
        (
            "questions.subset_seed=3",
            "questions.subset_seed means nothing without questions.subset; give both",
        ),
        ("eval.benchmarks=[multiply-9]", "unknown benchmark 'multiply-9'; did you mean 'multiply-"),
        (
            "pipelines=[[calibsft, redout]]",
            "unknown step of a pipeline 'redout'; did you mean 'redoubt'? (known: warmup, calibsft, rlvr",
        ),
        ("pipelines=[[calibsf]]", "unknown step of a pipeline 'calibsf'; did you mean 'calibsft'?"),
        (
            "pipelines=[[calibsft], [warmup, rlcr]]",
            "a pipeline has the step warmup, which learns from worked examples; give a file of them in warmup.rollout.shots",
        ),
        (
            "warmup.rollout.sample=8",
            "unknown key 'warmup.rollout.sample'; did you mean 'warmup.rollout.samples'?",
        ),
        ("warmup.sft.steps=0", "warmup.sft.steps = 0: input should be greater than or equal to 1"),
        ("warmup.sft=3", "warmup.sft = 3: input should be a valid dictionary"),
        ("warmup=3", "warmup = 3: input should be a valid dictionary"),
        ("questions.offset=0", "questions.offset = 0: input should be greater than or equal to 1"),
        ("pipelines=[]", "pipelines = []: tuple should have at least 1 item"),
        ("pipelines=[rlcr]", "pipelines.0 = 'rlcr': input should be a valid tuple; correct that key"),
        ("jobs=0", "jobs = 0: input should be greater than or equal to 1"),
        (
            "rl.group_size=1",
            "rl.group_size = 1: input should be greater than or equal to 2; correct that key",
        ),
        ("rl.steps=0", "rl.steps = 0: input should be greater than or equal to 1"),
        ("rl.updates=5", "rl.questions 32 is not a multiple of rl.updates 5; change either"),
        (
            "rl.micro_batch_size=100",
            "the 128 responses of an update (rl.questions x group_size / updates) are not a multiple of",
        ),
        ("rl.clip_low=1", "rl.clip_low = 1: input should be less than 1"),
        ("rl.dual_clip=1", "rl.dual_clip = 1: input should be greater than 1"),
        ("rl.final_rate=2", "rl.final_rate = 2: input should be less than or equal to 1"),
        ("rl.kl=-0.1", "rl.kl = -0.1: input should be greater than or equal to 0"),
        ("rl.lora.rnk=8", "unknown key 'rl.lora.rnk'; did you mean 'rl.lora.rank'?"),
        ("rl.learningrate=1", "unknown key 'rl.learningrate'; did you mean 'rl.learning_rate'?"),
        (
            "rl_methods.rlcrr.steps=3",
            "unknown RL method in rl_methods 'rlcrr'; did you mean 'rlcr'? (known: rlvr, rlcr",
        ),
        ("rl_methods.rlcr.stepss=3", "rl_methods.rlcr: unknown key 'stepss'; did you mean 'steps'?"),
        ("rl_methods.rlcr.steps=0", "rl_methods.rlcr: steps = 0: input should be greater than or equal to 1"),
        ("rl_methods.rlcr.updates=5", "rl_methods.rlcr: rl.questions 32 is not a multiple of rl.updates 5"),
        ("rl_methods.rlcr=3", "rl_methods.rlcr = 3: input should be a valid dictionary"),
        # Known before anything runs, so not told hours later.
        (
            "rl.keep_unanimous=true",
            "rl.keep_unanimous means nothing here, it is for coca, dcpo, redoubt; give it to them",
        ),
        (
            "rl_methods.rlcr.keep_unanimous=true",
            "rl_methods.rlcr: keep_unanimous means nothing here, it is for coca",
        ),
        ("rl_methods.rlcr.overlong_buffer=33", "rl.overlong_buffer is larger than rl.max_new_tokens"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_way_out(override: str, message: str) -> None:
    found = refusal("tiny", [override])
    assert found.startswith(f"{find_recipe('tiny')}: ")
    assert message in found


@pytest.mark.parametrize("override", ["rollout.samples", "=3", ""])
def test_an_override_without_key_or_value_is_refused(override: str) -> None:
    assert f"--set {override}: write it as key=value" in refusal("tiny", [override])


def test_an_override_that_is_not_yaml_is_refused() -> None:
    assert "--set sft.steps=[: not a valid value" in refusal("tiny", ["sft.steps=["])


def test_an_override_below_a_value_is_refused() -> None:
    assert "'seed' is a value, not a section" in refusal("tiny", ["seed.x=1"])


def test_an_unknown_name_gets_the_nearest() -> None:
    assert "no recipe is called 'tinny'; did you mean 'tiny'? (shipped: " in refusal("tinny")


def test_a_missing_recipe_file_is_named() -> None:
    assert refusal("none/such.yaml").startswith("none/such.yaml: no such recipe file")


@pytest.mark.parametrize(
    "text, message",
    [
        ("seed: 1\nsft: [1\nname: x\n", ", line 3: not valid YAML ("),
        ("seed: \x07", ": not valid YAML (unacceptable character"),
        ("- a\n- b\n", ": a recipe is a mapping of keys to values"),
        ("", ": a recipe is a mapping of keys to values"),
        ("just text", ": a recipe is a mapping of keys to values"),
        ("sft: 3\n", ": sft = 3: input should be a valid dictionary"),
        ("1: 2\n", ": unknown key '1'"),
    ],
)
def test_a_broken_recipe_is_told_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    assert f"{path}{message}" in refusal(path)


def test_a_recipe_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not a text file in UTF-8" in refusal(str(path))


def test_yaml_cannot_make_python_objects(tmp_path: Path) -> None:
    path = written(tmp_path, "name: !!python/object/apply:os.system ['true']\n")
    assert "not valid YAML (could not determine a constructor" in refusal(path)


def test_settings_cannot_be_changed_after_loading() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_recipe("tiny").sft.steps = 3  # type: ignore[misc]


def test_validated_names_its_source() -> None:
    with pytest.raises(InputError, match=r"^sft: beta = 2: input should be less than or equal to 1"):
        validated(SftSettings, {"beta": 2}, "sft")


def test_a_watcher_of_fine_tuning_that_does_not_exist_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"unknown name in report_to 'wanbd'; did you mean 'wandb'"):
        load_recipe("tiny", ["sft.report_to=wanbd"])


def test_a_recipe_extends_one_beside_it_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text("name: first\nseed: 3\nsft: {steps: 7, beta: 0.25}\n")
    (tmp_path / "second.yaml").write_text("extends: first.yaml\nsft: {steps: 9}\npipelines: [[rlcr]]\n")
    (tmp_path / "third.yaml").write_text("extends: second.yaml\nseed: 4\n")
    recipe = load_recipe(str(tmp_path / "third.yaml"))
    assert (recipe.name, recipe.seed) == ("first", 4)
    assert (recipe.sft.steps, recipe.sft.beta, recipe.pipelines) == (9, 0.25, (("rlcr",),))
    assert "extends" not in recipe.to_yaml()


def test_a_recipe_extends_a_shipped_one_by_name(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path, "extends: tiny\nseed: 5\n"))
    assert recipe == load_recipe("tiny", ["seed=5"])


@pytest.mark.parametrize(
    "base, said",
    [
        ("tinny", "mine.yaml, extends: no recipe is called 'tinny'; did you mean 'tiny'?"),
        ("gone.yaml", "mine.yaml, extends: gone.yaml: no such recipe file"),
        ("[tiny, tiny-rl]", "mine.yaml: extends names one recipe; write it as extends: qwen3-8b/calibsft"),
        ("mine.yaml", "mine.yaml: this recipe extends itself; remove extends in one of the files"),
    ],
)
def test_a_recipe_that_cannot_be_extended_is_refused(tmp_path: Path, base: str, said: str) -> None:
    assert said in refusal(written(tmp_path, f"extends: {base}\n"))


def test_layers_lie_over_the_recipe_in_turn_and_under_overrides(tmp_path: Path) -> None:
    for name, text in {
        "a.yaml": "seed: 1\nsft: {steps: 5}\n",
        "b.yaml": "sft: {beta: 0.25}\nseed: 2\n",
    }.items():
        (tmp_path / name).write_text(text)
    layers = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    recipe = load_recipe("tiny", ["sft.beta=0.75"], layers)
    assert (recipe.name, recipe.seed, recipe.sft.steps, recipe.sft.beta) == ("tiny", 2, 5, 0.75)
    assert recipe.sft.batch_size == load_recipe("tiny").sft.batch_size


@pytest.mark.parametrize(
    "layer, said",
    [
        ("9-gpus", "no machine is called '9-gpus'; did you mean '8-gpus'?"),
        ("gone.yaml", "gone.yaml: no such machine file"),
    ],
)
def test_a_layer_that_is_not_there_is_refused(layer: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        load_recipe("tiny", [], [layer])


def test_a_wrong_key_in_a_layer_is_refused_with_the_names_of_both_files(tmp_path: Path) -> None:
    layer = written(tmp_path, "sft: {stepps: 5}\n")
    with pytest.raises(InputError, match=r"tiny\.yaml with .*mine\.yaml: unknown key 'sft\.stepps'"):
        load_recipe("tiny", [], [layer])


@pytest.mark.parametrize("machine", shipped_machines())
@pytest.mark.parametrize("name", sorted(set(shipped_recipes()) - {"tiny", "tiny-rl", "study", "smollm2"}))
def test_every_recipe_of_the_paper_plans_on_every_machine(name: str, machine: str) -> None:
    recipe = load_checked(name, [], [machine])
    assert recipe.launch.gpu_memory_gb == 80 and recipe.rl.policy == "served"


@pytest.mark.parametrize("path", shipped_machines().values(), ids=lambda path: path.stem)
def test_every_shipped_machine_begins_with_its_command(path: Path) -> None:
    assert f"--with {path.stem}" in path.read_text().splitlines()[0]
