"""YAML as people write it, and as nobody should."""

from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.recipe import load_recipe
from calibsft.yaml_text import YamlProblem, parse_yaml


def test_ordinary_text() -> None:
    assert parse_yaml("a: 1\nb: [x, 0.5, null]\nc: {d: true}") == {
        "a": 1,
        "b": ["x", 0.5, None],
        "c": {"d": True},
    }
    assert parse_yaml("") is None and parse_yaml("8") == 8


def test_aliases_and_merged_sections_are_allowed() -> None:
    text = "base: &base {a: 1, b: 2}\nfirst: &first\n  <<: *base\n  b: 3\nsecond:\n  <<: *first\n  a: 4\n"
    found = parse_yaml(text)
    assert found["first"] == {"a": 1, "b": 3} and found["second"] == {"a": 4, "b": 3}


@pytest.mark.parametrize(
    "text, line", [("a: 1\na: 2", 2), ("x:\n  a: 1\n  b: 1\n  a: 1", 4), ("{a: 1, 'a': 2}", 1)]
)
def test_a_key_that_stands_twice(text: str, line: int) -> None:
    with pytest.raises(YamlProblem, match="the key 'a' occurs twice") as found:
        parse_yaml(text)
    assert found.value.line == line


def bomb(width: int = 9, depth: int = 12) -> str:
    first = f"a0: &a0 [{', '.join('x' * width)}]\n"
    return first + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]\n" for level in range(1, depth)
    )


@pytest.mark.parametrize("text", [bomb(), "a: &a [*a]", "a: &a {b: *a}", "a: [" + "x, " * 10_000 + "x]"])
def test_aliases_that_blow_up(text: str) -> None:
    with pytest.raises(YamlProblem, match="it holds more than 10,000 values"):
        parse_yaml(text)


@pytest.mark.parametrize(
    "text, said",
    [
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("{a: " * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("a: " + "9" * 5000, "4300 digits"),
        ("a: 2001-99-99", "month must be in"),
        ("a: \0", "special characters are not allowed"),
        ("a: b: c", "mapping values are not allowed"),
        ("? [a]\n: 1", "unhashable key"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: 1\n---\nb: 1", "but found another document"),
    ],
)
def test_text_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(YamlProblem, match=said):
        parse_yaml(text)


def test_a_recipe_says_in_which_line(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("seed: 1\nsft:\n  steps: 1\n  steps: 2\n")
    with pytest.raises(InputError, match=r"r.yaml, line 4: not valid YAML \(the key 'steps' occurs twice\)"):
        load_recipe(str(tmp_path / "r.yaml"))


def test_an_override_is_read_as_strictly() -> None:
    with pytest.raises(InputError, match=r"--set sft=\{steps: 1, steps: 2\}: not a valid value"):
        load_recipe("tiny", ["sft={steps: 1, steps: 2}"])


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "", ".", "..", ".x", "a/b", "a\\b", "a\nb", "a" * 201])
def test_a_recipe_cannot_leave_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "r.yaml").write_text("seed: 1\n")
    with pytest.raises(InputError, match=r"r.yaml: name = .* it names a folder in runs/"):
        load_recipe(str(tmp_path / "r.yaml"), [f"name={name!r}" if name.isprintable() else 'name="a\\nb"'])


@pytest.mark.parametrize("name", ["tiny", "my recipe (2)", "größer", "v1.2+x", "a..b"])
def test_ordinary_names_of_recipes(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.yaml").write_text("seed: 1\n")
    assert load_recipe(str(tmp_path / f"{name}.yaml")).name == name


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_that_no_library_takes(seed: str) -> None:
    with pytest.raises(InputError, match="seed = "):
        load_recipe("tiny", [f"seed={seed}"])
