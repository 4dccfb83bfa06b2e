"""A newcomer's estimator: the file of docs/extending.md and one line in the dict, and evaluations compare it."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from package_copy import Newcomer, PackageCopy, copy_with, playground_response

SAMPLE_MEAN = Newcomer("estimators/sample_mean.py", "estimators/__init__.py", "ESTIMATORS", "SAMPLE_MEAN")
# The confidences of the samples of each question, and the first answer of each question is right.
STATED = {"1+1": ("0.90", "0.30"), "2+2": ("0.20", "0.40")}
RECIPE = "eval: {benchmarks: [cross], estimators: [sample-mean]}\npipelines: [[]]\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    """The copy, with two questions and two responses to each."""
    package = copy_with(tmp_path_factory.mktemp("package"), SAMPLE_MEAN)
    asked = [{"question_id": q, "question": q, "gold": "7", "kind": "exact"} for q in STATED]
    said = [
        {"question": q, "response": playground_response("79"[i], text)}
        for q, texts in STATED.items()
        for i, text in enumerate(texts)
    ]
    package.write("mine.jsonl", asked)
    package.write("script.jsonl", said)
    return package


def test_lists_help_and_errors_name_it(package: PackageCopy) -> None:
    *_, last = json.loads(package.run("ls", "estimators", "--json"))
    assert last["name"] == "sample-mean" and last["says"].startswith("Sample mean: what all samples")
    assert package.run("ls", "estimators").splitlines()[-1].startswith("sample-mean ")
    said = package.run("eval", "--model", "m", "--estimators", "samplemean", "--out", "e", status=2)
    assert "unknown estimator 'samplemean'; did you mean 'sample-mean'?" in said


def test_a_recipe_takes_it(package: PackageCopy) -> None:
    (package.root / "mine.yaml").write_text(RECIPE)
    assert "sample-mean" in package.run("run", "mine.yaml", "--dry-run")


@pytest.fixture(scope="module")
def evaluated(package: PackageCopy, random_checkpoint: Path) -> tuple[object, ...]:
    """The command that has evaluated with it."""
    command = (
        "eval", "--model", random_checkpoint, "--questions", "mine.jsonl", "--samples", 2, "--out", "e",
        "--engine", "scripted", "--engine-responses", "script.jsonl", "--estimators", "sample-mean",
        "--max-new-tokens", 40,
    )  # fmt: skip
    found = json.loads(package.run(*command, "--json"))
    assert [part["estimator"] for part in found["estimators"]] == ["verbalized", "sample-mean"]
    return command


def test_it_is_scored_beside_the_stated_confidence(
    package: PackageCopy, evaluated: tuple[object, ...]
) -> None:
    rows = pl.read_parquet(package.root / "e/estimators/sample-mean.parquet").sort("question_id", "sample")
    assert rows["confidence"].to_list() == pytest.approx([0.6, 0.6, 0.3, 0.3])
    (line,) = [line for line in package.run(*evaluated).splitlines() if line.startswith("sample-mean ")]
    # Of (0.6 - 1)², 0.6², (0.3 - 1)² and 0.3² the mean.
    assert line.split()[:5] == ["sample-mean", "4", "0.5000", "0.5000", "0.2750"]


def test_it_is_a_row_of_tables_and_pages(package: PackageCopy, evaluated: tuple[object, ...]) -> None:
    table = package.run("score", "e/estimators/sample-mean.parquet", "--csv")
    assert float(next(csv.DictReader(io.StringIO(table)))["brier"]) == pytest.approx(0.275)
    package.run("report", "e", "--out", "r")
    (line,) = [line for line in package.read("r/report.md").splitlines() if "| sample-mean |" in line]
    assert "| 0.275 |" in line and "sample-mean" in package.read("r/report.html")
