"""A newcomer's grader: the file of docs/extending.md and one line in the dict, and whoever grades takes it."""

import json
from pathlib import Path

import polars as pl
import pytest

from calibsft.responses.parse import render
from package_copy import Newcomer, PackageCopy, copy_with, playground_response

CHOICE = Newcomer("verify/choice.py", "verify/__init__.py", "GRADERS", '"choice": CHOICE')
# The answers to a question with the gold (B), and how each is graded.
GRADES = {"b": "correct", "B) Paris": "correct", "C.": "incorrect", "Paris": "unparsed_answer"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    return copy_with(tmp_path_factory.mktemp("package"), CHOICE)


def test_lists_and_errors_name_it(package: PackageCopy) -> None:
    *_, last = json.loads(package.run("ls", "graders", "--json"))
    assert last == {"name": "choice", "version": 1, "benchmarks": "-"}
    assert package.run("ls", "graders").splitlines()[-1].split() == ["choice", "1", "-"]
    package.write("typo.jsonl", [{"question_id": "q", "response": "B", "gold": "B", "kind": "choise"}])
    said = package.run("verify", "typo.jsonl", "--out", "typo", status=2)
    assert "unknown grader 'choise' in column 'kind'; write one of exact, math" in said
    assert said.rstrip().endswith(", choice")


def test_responses_are_graded_with_it(package: PackageCopy) -> None:
    given = {"question_id": "q", "gold": "(B)", "kind": "choice"}
    package.write("r.jsonl", [{**given, "response": render("", answer, "0.90")} for answer in GRADES])
    verify = ("verify", "r.jsonl", "--out", "v")
    found = json.loads(package.run(*verify, "--json"))
    assert found["graders"] == ["choice-1"] and found["overall"]["correct"] == 0.5
    assert "graded by choice-1" in package.run(*verify)
    graded = pl.read_parquet(package.root / "v/part-*.parquet")
    assert dict(graded.select("answer", "grade").iter_rows()) == GRADES


# The playground's tokenizer has one letter.
ANSWERS = {"x": 0.2, "x.7": 0.3, "x.9": 0.4, "7": 0.9}
RECIPE = """
model: {model}
device: cpu
engine: {{name: scripted, responses: script.jsonl}}
eval: {{benchmarks: [mine.jsonl], samples: 4, max_new_tokens: 30, estimators: [self-consistency]}}
pipelines: [[]]
"""


def test_a_recipe_evaluates_with_it_and_votes_by_it(package: PackageCopy, random_checkpoint: Path) -> None:
    package.write("mine.jsonl", [{"question_id": "q", "question": "1+1", "gold": "X", "kind": "choice"}])
    said = [playground_response(answer, f"{stated:.2f}") for answer, stated in ANSWERS.items()]
    package.write("script.jsonl", [{"question": "1+1", "response": text} for text in said])
    (package.root / "mine.yaml").write_text(RECIPE.format(model=random_checkpoint), encoding="utf-8")
    assert "mine.jsonl" in package.run("run", "mine.yaml", "--dry-run")
    package.run("run", "mine.yaml", "--out", "run")
    manifest = json.loads(package.read("run/eval-base/manifest.json"))
    assert manifest["verifier"] == ["choice-1"]
    stated, vote = json.loads(package.read("run/eval-base/estimators.json"))
    assert stated["overall"]["pass@1"] == 0.75 and vote["overall"]["pass@1"] == 1
    votes = pl.read_parquet(package.root / "run/eval-base/estimators/self-consistency.parquet")
    assert votes.select("answer", "votes").row(0) == ("x", 3)
