"""A finished stage that another version of a grader graded: noticed on a rerun, told in one sentence, and mended."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from calibsft import verify
from calibsft.graded import older_grader
from calibsft.verify.judged import VERSION as JUDGE_VERSION
from calibsft.verify.verifier import Verifier
from command import Command

EXACT = verify.GRADERS["exact"].version


@pytest.fixture
def raise_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives a grader of this program the next version."""

    def raise_it(kind: str) -> None:
        grader = verify.GRADERS[kind]
        monkeypatch.setitem(verify.GRADERS, kind, replace(grader, version=grader.version + 1))

    return raise_it


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    rows = [
        {"question_id": str(i), "gold": "4", "kind": "exact", "response": f"<answer>{i}</answer>"}
        for i in range(6)
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def graders() -> list[str]:
    named: list[str] = json.loads(Path("v/manifest.json").read_text())["verifier"]
    assert pl.read_parquet("v/part-*.parquet")["grader"].unique().to_list() == named
    return named


def test_verdicts_of_an_older_grader_are_refused_by_its_name(
    calibsft: Command, responses: Path, raise_version: Callable[[str], None]
) -> None:
    command = ("verify", responses, "--out", "v")
    assert calibsft(*command)[0] == 0 and graders() == [f"exact-{EXACT}"]
    raise_version("text")
    code, _, err = calibsft(*command)
    assert code == 0 and "skipped" in err, "a grader that graded nothing here does not matter"
    raise_version("exact")
    code, _, err = calibsft(*command)
    assert code == 2 and len(err.splitlines()) == 1
    assert f"v: its answers were graded by exact-{EXACT} and this program has exact-{EXACT + 1}" in err
    assert "start this stage over with --fresh" in err
    assert calibsft(*command, "--fresh")[0] == 0 and graders() == [f"exact-{EXACT + 1}"]
    assert "skipped" in calibsft(*command)[2]


def test_without_its_manifest_a_stage_is_graded_again(
    calibsft: Command, responses: Path, raise_version: Callable[[str], None]
) -> None:
    assert calibsft("verify", responses, "--out", "v")[0] == 0
    raise_version("exact")
    Path("v/manifest.json").unlink()
    assert calibsft("verify", responses, "--out", "v")[0] == 0
    assert graders() == [f"exact-{EXACT + 1}"]


def test_every_grader_of_today_is_current() -> None:
    with Verifier() as verifier:
        names = [verifier.name_of(kind) for kind in verify.GRADERS]
    by_model = f"judge-{JUDGE_VERSION} org/judge-7 (exact aliases unasked)"
    assert older_grader({"verifier": [*names, by_model], "reward_graders": names}) is None
    assert older_grader({}) is None


@pytest.mark.parametrize(
    "manifest, sentence",
    [
        ({"verifier": ["exact-0"]}, f"its answers were graded by exact-0 and this program has exact-{EXACT}"),
        (
            {"reward_graders": ["exact-0"]},
            f"its rewards were graded by exact-0 and this program has exact-{EXACT}",
        ),
        ({"verifier": ["judge-0 org/judge (exact aliases unasked)"]}, f"has judge-{JUDGE_VERSION}"),
        (
            {"verifier": ["judge-0 (alias match, no judge model)"]},
            f"has judge-{verify.GRADERS['judge'].version}",
        ),
        (
            {"verifier": ["livebench-zebra-0"]},
            "graded by livebench-zebra-0 and this program has livebench-zebra-",
        ),
        ({"verifier": ["mine-3"]}, "graded by mine-3, which this program does not have"),
    ],
)
def test_the_grader_that_changed_is_named(manifest: dict[str, list[str]], sentence: str) -> None:
    assert sentence in (older_grader(manifest) or "")
