"""Recipes: all that ship load, overrides, and how mistakes are told."""

from pathlib import Path

import pytest
import yaml

from calibsft.errors import InputError
from calibsft.recipe import (
    Recipe,
    SftSettings,
    find_recipe,
    load_recipe,
    parse_overrides,
    recipe_folders,
    validated,
)

SHIPPED = sorted(path for folder in recipe_folders() for path in folder.rglob("*.yaml"))


def refusal(name: str, overrides: list[str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_recipe(name, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_recipes_ship() -> None:
    assert "tiny" in {path.stem for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_loads_and_survives_being_printed(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(path))
    assert load_recipe(written(tmp_path, recipe.to_yaml())) == recipe


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_begins_with_its_command(path: Path) -> None:
    name = next(str(path.relative_to(d).with_suffix("")) for d in recipe_folders() if path.is_relative_to(d))
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any(f"calibsft run {name}" in line for line in header)


def test_a_recipe_is_found_by_name_and_by_path() -> None:
    path = find_recipe("tiny")
    assert path.name == "tiny.yaml"
    assert find_recipe(str(path)) == path


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


def test_the_last_override_of_a_key_wins() -> None:
    assert parse_overrides(["steps=1", "steps=2"]) == {"steps": 2}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_overrides(["model=a=b"]) == {"model": "a=b"}


@pytest.mark.parametrize(
    "override, message",
    [
        ("rollout.sample=8", "unknown key 'rollout.sample'; did you mean 'rollout.samples'?"),
        ("sft.lora.rnk=8", "unknown key 'sft.lora.rnk'; did you mean 'sft.lora.rank'?"),
        ("zzz=8", "unknown key 'zzz'; known: name, seed, format"),
        (
            "rollout.samples=0",
            "rollout.samples = 0: input should be greater than or equal to 1; correct that key",
        ),
        ("rollout.samples=many", "rollout.samples = 'many': input should be a valid integer"),
        ("targets.mix=1.5", "targets.mix = 1.5: input should be less than or equal to 1"),
        ("targets.mix=.nan", "targets.mix = nan: input should be a finite number"),
        ("sft.learning_rate=.inf", "sft.learning_rate = inf: input should be a finite number"),
        ("sft.loss=calib", "sft.loss = 'calib': input should be 'calibsft', 'confidence-only'"),
        ("format=inteer", "unknown confidence format 'inteer'; did you mean 'integer'?"),
        ("targets.name=calib", "unknown target 'calib'; did you mean 'calibsft'?"),
        ("eval.benchmarks=[multiply-9]", "unknown benchmark 'multiply-9'; did you mean 'multiply-"),
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
