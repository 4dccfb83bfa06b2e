"""A newcomer's evidence: the file of docs/extending.md and one line in the dict, and it is measured."""

import json
from pathlib import Path

import polars as pl
import pytest

import calibsft
from calibsft.evidence.collect import read_evidence
from calibsft.schema import KEYS
from package_copy import Newcomer, PackageCopy, copy_with

TOKEN_COUNT = Newcomer(
    "evidence/token_count.py", "evidence/__init__.py", "EVIDENCE", '"token-count": TOKEN_COUNT'
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    return copy_with(tmp_path_factory.mktemp("package"), TOKEN_COUNT)


def test_help_and_lists_name_it(package: PackageCopy) -> None:
    *_, last = json.loads(package.run("ls", "evidence", "--json"))
    assert last == {"name": "token-count", "says": "how many tokens the response has"}
    assert "mean-logprob, answer-votes, cluster-share, judge-score, token-count" in " ".join(
        package.run("evidence", "--help").replace("│", " ").split()
    )


def test_it_is_measured_beside_others(package: PackageCopy, random_checkpoint: Path) -> None:
    rollouts, verdicts = package.root / "rollouts", package.root / "verdicts"
    small = {"samples": 3, "limit": 2, "max_new_tokens": 5, "device": "cpu"}
    calibsft.sample(model=random_checkpoint, benchmark="cross", out=rollouts, **small)
    calibsft.verify(responses=rollouts, out=verdicts)
    names = ("--names", "token-count,answer-votes")
    package.run("evidence", rollouts, "--verdicts", verdicts, *names, "--out", "e")
    found = read_evidence(package.root / "e").collect()
    assert found.columns == [*KEYS, "answer-votes", "token-count"]
    sampled = pl.read_parquet(rollouts / "part-*.parquet")["token_ids"]
    assert len(found) == 6 and found["token-count"].to_list() == sampled.list.len().to_list()
