"""One reading of confidences: what a response states counts in every score, however the decimal is written."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.decisions import certify
from calibsft.gateway.deciding import read_response
from calibsft.metrics import score_file, score_table
from calibsft.report.figures.coverage import COVERAGE, RISKS
from calibsft.report.summary import ModelResult, RunSummary
from calibsft.responses import get_format, parse, render
from calibsft.responses.actionable import actionable
from calibsft.rl import METHODS
from calibsft.rl.method import Group
from command import Command

PUBLISHED = Path(__file__).parents[4] / "shared/data/rollouts/math-500.jsonl.gz"
# What is written, whether the answer is right, the value for scores, and the one that a decision may act on.
WRITTEN: tuple[tuple[str, bool, float | None, float | None], ...] = (
    (render("r", "4", "0.9"), True, 0.9, 0.9),
    (render("r", "4", "1"), True, 1.0, 1.0),
    (render("r", "4", ".875"), True, 0.875, 0.875),
    (render("r", "4", "0.90"), True, 0.9, 0.9),
    (render("r", "5", "0.1"), False, 0.1, 0.1),
    (render("r", "5", "0.20"), False, 0.2, 0.2),
    (render("r", "4", "0.8") + " Done.", True, 0.8, None),
    (render("r", "5", "90%"), False, None, None),
    (render("r", "5", "nan"), False, None, None),
    (render("r", "5", "9e-1"), False, None, None),
)
VALUES = [value for *_, value, _ in WRITTEN]
ACTED_ON = [value for *_, value in WRITTEN]


@pytest.fixture
def verdicts(calibsft: Command, tmp_path: Path) -> Path:
    rows = [
        {"question_id": f"q{place}", "response": text, "gold": "4"}
        for place, (text, *_) in enumerate(WRITTEN)
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, _, err = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 0, err
    return tmp_path / "v"


def test_scores_decisions_and_the_gateway_read_the_same(verdicts: Path) -> None:
    rows = pl.read_parquet(verdicts / "part-*.parquet")
    assert rows["correct"].to_list() == [right for _, right, *_ in WRITTEN]
    assert rows["confidence"].to_list() == VALUES
    assert rows["well_formed"].to_list() == [parse(text).ok for text, *_ in WRITTEN]
    assert actionable(rows).to_list() == ACTED_ON
    live = [read_response(text, True, get_format("probability")).confidence for text, *_ in WRITTEN]
    assert live == ACTED_ON


def test_both_shares_are_told_wherever_a_score_is(calibsft: Command, verdicts: Path) -> None:
    found = score_file(verdicts, "counted")["overall"]
    assert (found["unreadable"], found["malformed"]) == (0.3, 0.8)
    assert found["auroc"] == 1.0 and found["excluded"]["n"] == 7
    assert score_table(pl.read_parquet(verdicts / "part-*.parquet"))["overall"] == found
    code, out, _ = calibsft("score", "v", "--malformed", "counted")
    header, line, *_ = out.splitlines()
    cells = dict(zip(header.split()[-2:], line.split()[-2:], strict=True))
    assert code == 0 and cells == {"unreadable": "0.3000", "malformed": "0.8000"}
    assert calibsft("report", "v", "--malformed", "counted", "-o", "r.html")[0] == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert "Unreadable ↓" in page and "Malformed ↓" in page and "30.0 %" in page and "80.0 %" in page
    code, out, _ = calibsft("diagnose", "v", "--json")
    told = json.loads(out)
    assert (told["unreadable"], told["malformed"]) == (pytest.approx(0.3), 0.8)
    code, out, _ = calibsft("diagnose", "v")
    assert "30 % without a readable confidence, 80 % malformed" in " ".join(out.split())


def test_what_a_file_does_not_say_of_its_layout_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("confidence,correct\n0.9,1\nx,0\n", encoding="utf-8")
    found = score_file(path, "counted")["overall"]
    assert found["unreadable"] == 0.5 and "malformed" not in found


@pytest.mark.parametrize("name", METHODS)
def test_rewards_do_not_see_what_a_malformed_response_states(name: str) -> None:
    def rewards(stated: float) -> list[Any]:
        group = Group(
            np.array([True, False, True]), np.array([1.0, 0.0, stated]), np.array([True, True, False]), 0.5
        )
        found = METHODS[name].rewards(group, METHODS[name].settings())
        return [None if part is None else part.tolist() for part in (found.answer_G, found.confidence_G)]

    assert rewards(0.9) == rewards(float("nan"))


def rows_with_unreadable(**columns: Any) -> pl.DataFrame:
    """400 right answers at 0.90 and 0.80 of which every fourth has no confidence to act on."""
    place = np.arange(400)
    return pl.DataFrame(
        {
            "dataset": "x",
            "question_id": place.astype(str),
            "confidence": np.where(place % 2, 0.9, 0.8),
            "correct": np.ones(400, dtype=bool),
        }
    ).with_columns(**columns)


FOURTH = pl.int_range(400) % 4 == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"confidence": pl.when(~FOURTH).then(pl.col("confidence"))},
        {
            "well_formed": ~FOURTH,
            "reason": pl.when(FOURTH).then(pl.lit("stray_text")).otherwise(pl.lit("ok")),
        },
        {"well_formed": ~FOURTH},
    ],
    ids=["unreadable", "layout", "layout without reasons"],
)
def test_the_coverage_figure_never_answers_what_certify_never_answers(columns: dict[str, pl.Expr]) -> None:
    rows = rows_with_unreadable(**columns)
    certificate = certify(actionable(rows), rows["correct"], rows["question_id"], RISKS[-1])
    figure = COVERAGE.draw(RunSummary("run", (ModelResult("model", rows),)))
    assert figure is not None and certificate.threshold == 0
    drawn = np.asarray(figure.axes[0].lines[0].get_ydata(), dtype=float)[-1]
    assert certificate.coverage == 0.75
    assert drawn == pytest.approx(0.75, abs=0.05)


def test_a_decimal_that_only_looks_unlike_the_format_is_answered_in_the_figure_too() -> None:
    form = {"well_formed": ~FOURTH, "reason": pl.when(FOURTH).then(pl.lit("bad_confidence"))}
    figure = COVERAGE.draw(RunSummary("run", (ModelResult("model", rows_with_unreadable(**form)),)))
    assert figure is not None
    assert np.asarray(figure.axes[0].lines[0].get_ydata(), dtype=float)[-1] == 1.0


def published(model: str) -> tuple[list[float | None], list[int]]:
    with gzip.open(PUBLISHED, "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["model"] == model]
    return [parse(row["response"]).confidence for row in rows], [row["correct"] for row in rows]


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="needs the published responses")
def test_published_rlcr_responses_are_all_but_a_few_readable() -> None:
    stated, correct = published("RLCR")
    found = score_table(pl.DataFrame({"confidence": stated, "correct": correct}))["overall"]
    assert sum(value is None for value in stated) == 7
    assert found["auroc"] == pytest.approx(0.727, abs=5e-4)


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="needs the published responses")
def test_published_confidences_of_sixteen_digits_are_read_as_they_are() -> None:
    stated, correct = published("Answer-Prob")
    assert None not in stated
    found = score_table(pl.DataFrame({"confidence": stated, "correct": correct}))["overall"]
    assert found["auroc"] == pytest.approx(0.78559, abs=5e-6)
