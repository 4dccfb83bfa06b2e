"""A metric is one file and one line: the example of the docs, added to a copy of the package, is shown everywhere."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from math import log
from pathlib import Path

import pytest

import calibsft
from calibsft.cards import model_card
from calibsft.metrics import METRICS
from calibsft.responses.formats import FORMATS
from calibsft.sft.settings import SftSettings

DOCS = Path(__file__).parents[3] / "docs"
NAME, TITLE = "log_score", "Log score"
ROWS = [("a", 0.9, 1), ("a", 0.6, 0), ("b", 0.2, 0), ("b", 0.7, 1), ("c", 0.4, 1), ("c", 1.0, 1)]


def example() -> str:
    """The file that the docs show."""
    page = (DOCS / "extending.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"`metrics/log_score\.py`.*?^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return text


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the example as a file of its own, and its line in the dict."""
    root = tmp_path_factory.mktemp("copy")
    copy = root / "calibsft"
    shutil.copytree(Path(calibsft.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "metrics" / f"{NAME}.py").write_text(example(), encoding="utf-8")
    registry = copy / "metrics" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    first = "from calibsft.metrics.calibration import"
    listed = text.replace(first, f"from calibsft.metrics.log_score import LOG_SCORE\n{first}", 1)
    listed = listed.replace("        EXTREME_SHARE,\n", "        EXTREME_SHARE,\n        LOG_SCORE,\n", 1)
    registry.write_text(listed, encoding="utf-8")
    assert len(listed.splitlines()) == len(text.splitlines()) + 2
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Responses of two models to the same questions."""
    for name, less in (("ours.csv", 0.0), ("other.csv", 0.15)):
        lines = [f"{q},{'xyz'[i % 3]},id,{c - less:.2f},{z}" for i, (q, c, z) in enumerate(ROWS)]
        text = "\n".join(["question_id,dataset,split,confidence,correct", *lines])
        (tmp_path / name).write_text(text + "\n")
    return tmp_path


def run(package: Path, folder: Path, *words: object) -> str:
    """What a command of the copy prints."""
    environment = os.environ | {"PYTHONPATH": str(package), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "calibsft", *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_is_small_and_not_yet_there() -> None:
    assert len(example().splitlines()) <= 60 and NAME not in METRICS


def test_a_new_metric_is_listed(package: Path, folder: Path) -> None:
    *_, last = json.loads(run(package, folder, "ls", "metrics", "--json"))
    assert (last["name"], last["title"], last["better"]) == (NAME, TITLE, "lower")
    assert last["says"].startswith("Mean of -log") and last["says"] in run(package, folder, "ls", "metrics")


def test_a_new_metric_is_scored_with_intervals_and_differences(package: Path, folder: Path) -> None:
    words = ("score", "ours.csv", "--intervals", "--baseline", "other.csv")
    found = json.loads(run(package, folder, *words, "--json"))
    stated = [min(c if z else 1 - c, 0.995) for _, c, z in ROWS]
    expected = -sum(map(log, stated)) / len(stated)
    assert found["overall"][NAME] == pytest.approx(expected, abs=1e-12)
    low, high = found["overall"]["intervals"][NAME]
    assert 0 <= low < expected < high
    parts = [*found["datasets"].values(), *found["splits"].values()]
    assert len(parts) == 5 and all(NAME in part and NAME in part["intervals"] for part in parts)
    assert {"difference", "low", "high"} == set(found["against"]["overall"][NAME])
    header, first, *rest = run(package, folder, *words).splitlines()
    assert TITLE in header and f"{expected:.4f}" in first
    assert any(line.startswith(f"  {NAME} ") for line in rest)


def test_a_new_metric_is_a_column_of_csv_and_markdown(package: Path, folder: Path) -> None:
    table = run(package, folder, "score", "ours.csv", "--csv", "--intervals")
    row = next(csv.DictReader(io.StringIO(table)))
    assert float(row[f"{NAME}_low"]) < float(row[NAME]) < float(row[f"{NAME}_high"])
    assert f" {NAME} |" in run(package, folder, "score", "ours.csv", "--md").splitlines()[0]


def test_a_new_metric_is_in_the_tables_of_a_report(package: Path, folder: Path) -> None:
    run(package, folder, "report", "ours.csv", "other.csv", "--out", "r")
    page, text = (Path(folder, "r", f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    headers = [line for line in text.splitlines() if f"| {TITLE} ↓ |" in line]
    assert [line.split(" | ")[0] for line in headers] == ["| Model", "| ", "| Benchmark"]
    assert page.count(f"{TITLE} ↓") == 3


def test_a_new_metric_is_on_the_model_card(package: Path, folder: Path, random_checkpoint: Path) -> None:
    model = Path(shutil.copytree(random_checkpoint, folder / "m"))
    card = model_card("base", (), "Title", "Story.", SftSettings(), FORMATS["probability"])
    (model / "README.md").write_text(card, encoding="utf-8")
    limits = ("--limit", 2, "--samples", 2, "--max-new-tokens", 5, "--device", "cpu")
    run(package, folder, "eval", "--model", "m", "--out", "e", "--benchmarks", "cross", *limits)
    assert f"| {TITLE} ↓ |" in (model / "README.md").read_text(encoding="utf-8")
