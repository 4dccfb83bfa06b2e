"""A metric is one file and one line: the example of the docs, added to a copy of the package, is shown everywhere."""

import csv
import io
import json
import shutil
from math import log
from pathlib import Path

import pytest

from calibsft.cards import model_card
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings
from package_copy import Newcomer, PackageCopy, copy_with

NAME, TITLE = "log_score", "Log score"
LOG_SCORE = Newcomer("metrics/log_score.py", "metrics/registry.py", "METRICS", "LOG_SCORE")
ROWS = [("a", 0.9, 1), ("a", 0.6, 0), ("b", 0.2, 0), ("b", 0.7, 1), ("c", 0.4, 1), ("c", 1.0, 1)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    """The copy, with responses of two models to the same questions."""
    root = tmp_path_factory.mktemp("copy")
    for name, less in (("ours.csv", 0.0), ("other.csv", 0.15)):
        lines = [f"{q},{'xyz'[i % 3]},id,{c - less:.2f},{z}" for i, (q, c, z) in enumerate(ROWS)]
        text = "\n".join(["question_id,dataset,split,confidence,correct", *lines])
        (root / name).write_text(text + "\n")
    return copy_with(root, LOG_SCORE)


def test_a_new_metric_is_listed(package: PackageCopy) -> None:
    *_, last = json.loads(package.run("ls", "metrics", "--json"))
    assert (last["name"], last["title"], last["better"]) == (NAME, TITLE, "lower")
    assert last["says"].startswith("Mean of -log") and last["says"] in package.run("ls", "metrics")


def test_a_new_metric_is_scored_with_intervals_and_differences(package: PackageCopy) -> None:
    words = ("score", "ours.csv", "--intervals", "--baseline", "other.csv")
    found = json.loads(package.run(*words, "--json"))
    stated = [min(c if z else 1 - c, 0.995) for _, c, z in ROWS]
    expected = -sum(map(log, stated)) / len(stated)
    assert found["overall"][NAME] == pytest.approx(expected, abs=1e-12)
    low, high = found["overall"]["intervals"][NAME]
    assert 0 <= low < expected < high
    parts = [*found["datasets"].values(), *found["splits"].values()]
    assert len(parts) == 5 and all(NAME in part and NAME in part["intervals"] for part in parts)
    assert {"difference", "low", "high"} == set(found["against"]["overall"][NAME])
    header, first, *rest = package.run(*words).splitlines()
    assert TITLE in header and f"{expected:.4f}" in first
    assert any(line.startswith(f"  {NAME} ") for line in rest)


def test_a_new_metric_is_a_column_of_csv_and_markdown(package: PackageCopy) -> None:
    table = package.run("score", "ours.csv", "--csv", "--intervals")
    row = next(csv.DictReader(io.StringIO(table)))
    assert float(row[f"{NAME}_low"]) < float(row[NAME]) < float(row[f"{NAME}_high"])
    assert f" {NAME} |" in package.run("score", "ours.csv", "--md").splitlines()[0]


def test_a_new_metric_is_in_the_tables_of_a_report(package: PackageCopy) -> None:
    package.run("report", "ours.csv", "other.csv", "--out", "r")
    page, text = (
        Path(package.root, "r", f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md")
    )
    headers = [line for line in text.splitlines() if f"| {TITLE} ↓ |" in line]
    assert [line.split(" | ")[0] for line in headers] == ["| Model", "| ", "| Benchmark"]
    assert page.count(f"{TITLE} ↓") == 3


def test_a_new_metric_is_on_the_model_card(package: PackageCopy, random_checkpoint: Path) -> None:
    model = Path(shutil.copytree(random_checkpoint, package.root / "m"))
    card = model_card("base", (), "Title", "Story.", SftSettings(), Prompting(FORMATS["probability"]))
    (model / "README.md").write_text(card, encoding="utf-8")
    limits = ("--limit", 2, "--samples", 2, "--max-new-tokens", 5, "--device", "cpu")
    package.run("eval", "--model", "m", "--out", "e", "--benchmarks", "cross", *limits)
    assert f"| {TITLE} ↓ |" in (model / "README.md").read_text(encoding="utf-8")
