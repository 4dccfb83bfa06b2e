"""`calibsft eval --questions`: a test set of one's own has everything that a benchmark has."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from calibsft.cards import model_card
from calibsft.decisions.policy import read_policy
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings
from command import Command

SAMPLED = ("-n", 3, "--device", "cpu", "--max-new-tokens", 30, "--temperature", 1)


@pytest.fixture
def own(calibsft: Command, tmp_path: Path) -> str:
    asked = [
        {"question_id": f"q{i}", "question": f"What is {i}*{i + 1}?", "gold": i * (i + 1)}
        for i in range(2, 8)
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    return "mine.jsonl"


@pytest.fixture
def model(random_checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint with a card that evaluations may fill in."""
    copied = shutil.copytree(random_checkpoint, tmp_path / "model")
    written = get_format("probability")
    (copied / "README.md").write_text(
        model_card("", (), "Mine", "Made for a test.", SftSettings(), Prompting(written))
    )
    return copied


def test_own_questions_get_budgets_estimators_a_card_and_a_policy(
    calibsft: Command, own: str, model: Path, tmp_path: Path
) -> None:
    command = ("eval", "--model", model, "--questions", own, *SAMPLED, "--out", "e")
    extra = ("--budgets", "8", "--estimators", "verbalized,self-consistency", "--json")
    code, out, err = calibsft(*command, *extra)
    assert code == 0, err
    found = json.loads(out)
    assert list(found["datasets"]) == ["mine"] and found["overall"]["n"] == 18
    assert set(found["splits"]) == {"own", "mean over datasets"}
    assert [part["overall"]["n"] for part in found["budgets"]] == [18]
    assert [part["overall"]["n"] for part in found["estimators"]] == [18, 6]
    assert "| mine | 18 |" in (model / "README.md").read_text()
    code, _, err = calibsft("certify", "e", "--risk", 0.5, "--malformed", "counted")
    assert code == 0, err
    policy = read_policy(tmp_path / "policy.json")
    assert (policy.model, policy.n, policy.sampling.temperature) == (str(model), 6, 1)
    code, _, err = calibsft("report", "e", "-o", "page")
    assert code == 0 and "mine" in Path("page/report.md").read_text(), err


def test_own_questions_stand_beside_benchmarks_and_their_file_is_an_input(
    calibsft: Command, own: str, random_checkpoint: Path, tmp_path: Path
) -> None:
    command = (
        "eval", "--model", random_checkpoint, "--benchmarks", "cross", "--questions", own, "--limit", 2, *SAMPLED,
        "--out", "e",
    )  # fmt: skip
    assert calibsft(*command)[0] == 0
    rows = pl.read_parquet("e/rows.parquet")
    pairs = rows.select("dataset", "split").unique().sort("dataset").rows()
    assert pairs[1] == ("mine", "own") and pairs[0][0] == "cross" and len(rows) == 12
    assert "skipped" in calibsft(*command)[2]
    (tmp_path / own).write_text((tmp_path / own).read_text().replace('"gold": 6}', '"gold": 7}'))
    code, _, err = calibsft(*command)
    assert code == 2 and "mine.jsonl" in err


def test_an_evaluation_is_scored_as_a_folder_like_its_rows(
    calibsft: Command, own: str, random_checkpoint: Path
) -> None:
    assert calibsft("eval", "--model", random_checkpoint, "--questions", own, *SAMPLED, "--out", "e")[0] == 0
    found = [
        json.loads(calibsft("score", path, "--malformed", "counted", "--json")[1])
        for path in ("e", "e/rows.parquet", "e/verdicts")
    ]
    assert found[0] == found[1] and found[0]["overall"] == found[2]["overall"]
    assert found[0]["overall"]["n"] == 18


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "no benchmark to evaluate on; name some in eval.benchmarks or with --benchmarks, or give a file with"),
        (("--questions", "none.csv"), "none.csv: no such file"),
        (("--questions", "cross.csv"), "column 'gold' is missing"),
        (("--questions", "cross.jsonl", "--benchmarks", "cross"), "'cross' is the name of two sets of questions"),
        (("--benchmarks", "crosss"), "did you mean 'cross'?"),
        (("--benchmarks", "cross,playground"), "'playground' is for training, not for evaluation; take another one"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(
    calibsft: Command, own: str, random_checkpoint: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    (tmp_path / "cross.csv").write_text("question_id,question\na,b\n")
    (tmp_path / "cross.jsonl").write_text((tmp_path / own).read_text())
    code, out, err = calibsft("eval", "--model", random_checkpoint, *options, *SAMPLED, "--out", "e")
    assert (code, out) == (2, "") and told in err
