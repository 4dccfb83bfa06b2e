"""A newcomer's engine: the file of docs/extending.md and one line in the dict, and commands sample with it."""

from pathlib import Path

import polars as pl
import pytest

from calibsft.engines import ENGINES
from package_copy import Newcomer, PackageCopy, copy_with

CONSTANT = Newcomer("engines/constant.py", "engines/__init__.py", "ENGINES", '"constant": CONSTANT')
RECIPE = """
model: {model}
device: cpu
engine: {{name: constant, text: "<think>1</think><answer>0</answer><confidence>0.50</confidence>"}}
eval: {{benchmarks: [multiply-1], limit: 3, samples: 2, max_new_tokens: 30}}
pipelines: [[]]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    return copy_with(tmp_path_factory.mktemp("package"), CONSTANT)


def test_help_and_lists_name_it(package: PackageCopy) -> None:
    assert "The engine `constant`: one response to every question" in package.run("ls", "engines")
    shown = package.run("eval", "--help")
    assert f"One of {', '.join(ENGINES)}, constant." in shown
    assert "--engine-text" in shown and "Every response, word for word (constant)." in shown


def test_a_recipe_samples_with_it(package: PackageCopy, random_checkpoint: Path) -> None:
    (package.root / "mine.yaml").write_text(RECIPE.format(model=random_checkpoint), encoding="utf-8")
    package.run("run", "mine.yaml", "--out", "run")
    rows = pl.read_parquet(package.root / "run/eval-base/rows.parquet")
    assert rows["confidence"].to_list() == [0.5] * 6 and not rows["correct"].any()
