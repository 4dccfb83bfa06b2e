"""A newcomer's target: the file of docs/extending.md and one line in the dict, and every door knows it."""

import json

import polars as pl
import pytest

from calibsft.responses.parse import render
from package_copy import Newcomer, PackageCopy, copy_with

HEDGED = Newcomer("targets/hedged.py", "targets/__init__.py", "TARGETS", '"hedged": HEDGED')
POOL = [
    {"question_id": f"{k}-{copy}", "question": "?", "response": render("", str(i), "0.50"), "correct": i < k}
    for k in range(5)
    for copy in range(3)
    for i in range(4)
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    """The copy, with a pool of responses."""
    root = tmp_path_factory.mktemp("package")
    (root / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in POOL))
    return copy_with(root, HEDGED)


def test_help_and_lists_name_it(copied: PackageCopy) -> None:
    listed = {row["name"]: row["says"] for row in json.loads(copied.run("ls", "targets", "--json"))}
    assert listed["hedged"] == "the question's success rate, kept away from 0 and 1"
    shown = " ".join(copied.run("build", "--help").replace("│", " ").split())
    assert all(f"{name}: {says}" in shown for name, says in listed.items())


def test_a_training_set_is_built_with_it(copied: PackageCopy) -> None:
    found = json.loads(copied.run("build", "pool.jsonl", "--target", "hedged", "--out", "built", "--json"))
    assert found["target"] == "hedged"
    assert set(found["before"]) == {"1/20", "1/4", "1/2", "3/4", "19/20"}
    assert set(pl.read_parquet(copied.root / "built/sft.parquet")["target"]) == {0.05, 0.25, 0.5, 0.75, 0.95}


def test_a_recipe_takes_it_with_its_own_settings(copied: PackageCopy) -> None:
    (copied.root / "mine.yaml").write_text(
        "targets:\n  name: hedged\n  margin: 0.1\neval:\n  benchmarks: [multiply-1]\n"
    )
    assert "margin: 0.1" in copied.run("run", "mine.yaml", "--dry-run")
    said = copied.run("run", "mine.yaml", "--dry-run", "--set", "targets.mix=0.3", status=2)
    assert "targets.mix means nothing here, it is for calibsft, shuffled; leave it out" in said
    said = copied.run("run", "mine.yaml", "--dry-run", "--set", "targets.margin=0.7", status=2)
    assert "targets.margin = 0.7: input should be less than or equal to 0.5; correct that key" in said
