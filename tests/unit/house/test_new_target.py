"""A newcomer's target: the file of docs/extending.md and one line in the dict, and every door knows it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import calibsft
from calibsft.responses.parse import render

DOCS = Path(__file__).parents[3] / "docs/extending.md"
LONGEST = 60
POOL = [
    {"question_id": f"{k}-{copy}", "question": "?", "response": render("", str(i), "0.50"), "correct": i < k}
    for k in range(5)
    for copy in range(3)
    for i in range(4)
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the target of the docs."""
    root = tmp_path_factory.mktemp("package")
    package = root / "calibsft"
    shutil.copytree(Path(calibsft.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (code,) = re.findall(r'^```python\n("""Hedged.*?)^```', DOCS.read_text(encoding="utf-8"), re.M | re.S)
    assert len(code.splitlines()) <= LONGEST
    (package / "targets/hedged.py").write_text(code, encoding="utf-8")
    listing = package / "targets/__init__.py"
    text = listing.read_text(encoding="utf-8")
    importing = "from calibsft.targets.hedged import HEDGED\nfrom calibsft.targets.lovec import LOVEC\n"
    text = text.replace("from calibsft.targets.lovec import LOVEC\n", importing)
    listing.write_text(text.replace('    "csft": CSFT,\n', '    "csft": CSFT,\n    "hedged": HEDGED,\n'))
    (root / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in POOL))
    return root


def command(root: Path, *words: str, status: int = 0) -> str:
    """What the command of the copied package prints, on both streams."""
    environment = os.environ | {"PYTHONPATH": str(root), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "calibsft", *words], cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_help_and_lists_name_it(copied: Path) -> None:
    listed = {row["name"]: row["says"] for row in json.loads(command(copied, "ls", "targets", "--json"))}
    assert listed["hedged"] == "the question's success rate, kept away from 0 and 1"
    shown = " ".join(command(copied, "build", "--help").replace("│", " ").split())
    assert all(f"{name}: {says}" in shown for name, says in listed.items())


def test_a_training_set_is_built_with_it(copied: Path) -> None:
    found = json.loads(
        command(copied, "build", "pool.jsonl", "--target", "hedged", "--out", "built", "--json")
    )
    assert found["target"] == "hedged"
    assert set(found["before"]) == {"1/20", "1/4", "1/2", "3/4", "19/20"}
    assert set(pl.read_parquet(copied / "built/sft.parquet")["target"]) == {0.05, 0.25, 0.5, 0.75, 0.95}


def test_a_recipe_takes_it_with_its_own_settings(copied: Path) -> None:
    (copied / "mine.yaml").write_text(
        "targets:\n  name: hedged\n  margin: 0.1\neval:\n  benchmarks: [multiply-1]\n"
    )
    assert "margin: 0.1" in command(copied, "run", "mine.yaml", "--dry-run")
    said = command(copied, "run", "mine.yaml", "--dry-run", "--set", "targets.mix=0.3", status=2)
    assert "targets.mix means nothing here, it is for calibsft; leave it out" in said
    said = command(copied, "run", "mine.yaml", "--dry-run", "--set", "targets.margin=0.7", status=2)
    assert "targets.margin = 0.7: input should be less than or equal to 0.5; correct that key" in said
