"""A newcomer's benchmark: the file of docs/benchmarks.md and one line in the dict, and it is asked and shown everywhere."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from calibsft.cards import model_card
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings
from package_copy import Newcomer, PackageCopy, copy_with, playground_response

SVAMP = Newcomer("benchmarks/svamp.py", "benchmarks/__init__.py", "BENCHMARKS", "SVAMP", "benchmarks.md")
ROWS = [
    {"ID": "chal-1", "Body": "Ann has 3 pens and buys 4.", "Question": "How many has she?", "Answer": "7"},
    {"ID": "chal-2", "Body": "Bob had 9 pens and lost 2.", "Question": "What is left?", "Answer": 7.0},
    {"ID": "chal-3", "Body": "6 boxes hold 8 pens each.", "Question": "How many pens?", "Answer": "48"},
]
# One response to each question, of which the first two are right.
SAID = [("7", "0.90"), ("7.0", "0.60"), ("14", "0.30")]
RECIPE = "eval: {benchmarks: [svamp], data_dir: data}\npipelines: [[]]\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    """The copy, with the benchmark's data in a folder and responses to its questions."""
    package = copy_with(tmp_path_factory.mktemp("package"), SVAMP)
    (package.root / "data").mkdir()
    package.write("data/svamp.jsonl", ROWS)
    asked = [f"{row['Body']} {row['Question']}" for row in ROWS]
    said = [playground_response(*said) for said in SAID]
    script = [{"question": q, "response": text} for q, text in zip(asked, said, strict=True)]
    package.write("script.jsonl", script)
    return package


def test_lists_and_errors_name_it(package: PackageCopy) -> None:
    rows = json.loads(package.run("ls", "benchmarks", "--json"))
    assert rows[-1]["name"] == "svamp" and rows[-1]["description"] == "one-step word problems"
    lines = package.run("ls", "benchmarks").splitlines()
    part = lines[lines.index("-- domain ood") :]
    part = part[: next(i for i, line in enumerate(part[1:], 1) if line.startswith("--"))]
    assert part[-1].split() == ["svamp", "300", "4", "math", "1", "ChilleD/SVAMP", "test"]
    said = package.run("eval", "--model", "m", "--benchmarks", "svam", "--out", "e", status=2)
    assert "unknown benchmark 'svam'; did you mean 'svamp'?" in said


def test_its_golds_are_checked(package: PackageCopy) -> None:
    found = json.loads(package.run("validate", "--benchmark", "svamp", "--data-dir", "data", "--json"))
    assert found == {"svamp": {"questions": 3, "passed": 3, "answers": 6, "failures": []}}


def test_a_recipe_takes_it(package: PackageCopy) -> None:
    (package.root / "mine.yaml").write_text(RECIPE)
    assert "  - svamp\n" in package.run("run", "mine.yaml", "--dry-run")


@pytest.fixture(scope="module")
def evaluated(package: PackageCopy, random_checkpoint: Path) -> tuple[str, ...]:
    """The command that has evaluated a model with a card on the benchmark."""
    model = Path(shutil.copytree(random_checkpoint, package.root / "m"))
    card = model_card("base", (), "Title", "Story.", SftSettings(), Prompting(FORMATS["probability"]))
    (model / "README.md").write_text(card, encoding="utf-8")
    command = (
        "eval", "--model", "m", "--benchmarks", "svamp", "--data-dir", "data", "--samples", "1", "--out", "e",
        "--engine", "scripted", "--engine-responses", "script.jsonl", "--max-new-tokens", "40",
    )  # fmt: skip
    found = json.loads(package.run(*command, "--json"))
    assert found["datasets"]["svamp"]["pass@1"] == pytest.approx(2 / 3)
    assert found["splits"]["ood"]["n"] == 3
    return command


def test_it_is_asked_graded_and_scored(package: PackageCopy, evaluated: tuple[str, ...]) -> None:
    manifest = json.loads(package.read("e/manifest.json"))
    assert manifest["benchmarks"] == {"svamp": 1} and [
        name.rpartition("-")[0] for name in manifest["verifier"]
    ] == ["math"]
    header, *lines = package.run(*evaluated).splitlines()
    (line,) = [line for line in lines if line.startswith("svamp ")]
    assert "Pass@1" in header and line.split()[:3] == ["svamp", "3", "0.6667"]
    assert "| svamp | 3 | 0.667 |" in package.read("m/README.md")


def test_it_is_a_row_of_tables_and_pages(package: PackageCopy, evaluated: tuple[str, ...]) -> None:
    rows = csv.DictReader(io.StringIO(package.run("score", "e", "--csv")))
    assert [row["n"] for row in rows if row["name"] == "svamp"] == ["3"]
    assert any(line.startswith("| svamp | 3 |") for line in package.run("score", "e", "--md").splitlines())
    package.run("report", "e", "--out", "r")
    assert "svamp" in package.read("r/report.html") and "| svamp |" in package.read("r/report.md")
