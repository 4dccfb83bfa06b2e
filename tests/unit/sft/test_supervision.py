"""What a report shows of training: the tokens of a response and how much each weighs in the loss."""

from pathlib import Path

import polars as pl
import pytest

from calibsft.artifacts import SUPERVISION, write_parquet
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.sft.fine_tune import fine_tune
from calibsft.sft.settings import SftSettings
from calibsft.sft.supervision import shown_rows

QUICK = SftSettings(
    steps=1, batch_size=4, micro_batch_size=4, learning_rate=1e-3, max_tokens=64, warmup_steps=0
)


def row(question: int, sample: int, correct: bool, draw: int = 0) -> dict[str, object]:
    return {
        "draw": draw, "dataset": "d", "question_id": str(question), "sample": sample, "question": f"{10 + question}*11",
        "correct": correct,
        "response": f"<think>{question:04d}+000</think><answer>{sample:04d}</answer><confidence>0.25</confidence>",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "reasoning_of_wrong", "confidence_of_wrong"),
    [("calibsft", False, True), ("confidence-only", False, True), ("full-ce", True, True), ("correct-only", False, False)],
)  # fmt: skip
def test_weights_are_those_of_the_loss(
    random_checkpoint: Path, tmp_path: Path, loss: str, reasoning_of_wrong: bool, confidence_of_wrong: bool
) -> None:
    data = tmp_path / "sft.parquet"
    rows = [row(0, 0, True), row(0, 1, False), row(1, 0, True), row(1, 1, False), row(1, 1, False, draw=1)]
    write_parquet(data, pl.DataFrame(rows))
    settings = QUICK.model_copy(update={"loss": loss})
    fine_tune(str(random_checkpoint), data, settings, Prompting(FORMATS["probability"]), 0, tmp_path, "cpu")
    found = pl.read_parquet(tmp_path / SUPERVISION).sort("question_id", "sample")
    assert found.select("question_id", "sample").rows() == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    shown = found.select("tokens", "weights", "confidence_at").iter_rows()
    for written, (tokens, weights, start) in zip(rows, shown, strict=False):
        assert "".join(tokens[:-1]) == written["response"] and len(weights) == len(tokens)
        assert tokens[start] == "<confidence>"
        reasoning, confidence = weights[:start], weights[start:]
        trained = loss != "confidence-only"
        assert all(
            (weight > 0) == ((written["correct"] and trained) or reasoning_of_wrong) for weight in reasoning
        )
        assert all((weight > 0) == (written["correct"] or confidence_of_wrong) for weight in confidence)


def test_shown_rows_are_whole_questions_and_name_a_repeated_response_once() -> None:
    rows = pl.DataFrame([row(q, s, True, draw) for draw in (0, 1) for q in range(20) for s in range(5)])
    shown = rows[shown_rows(rows, most=30)]
    assert shown.n_unique("question_id") == 6 and len(shown) == 30
    assert (
        shown.group_by("question_id").agg(pl.col("sample").sort()).get_column("sample").to_list()
        == [[0, 1, 2, 3, 4]] * 6
    )
    assert len(shown_rows(rows)) == 100


def test_training_can_be_watched_in_tensorboard(random_checkpoint: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    data = tmp_path / "sft.parquet"
    write_parquet(data, pl.DataFrame([row(q, 0, True) for q in range(4)]))
    settings = QUICK.model_copy(update={"steps": 3, "report_to": ("tensorboard",)})
    fine_tune(str(random_checkpoint), data, settings, Prompting(FORMATS["probability"]), 0, tmp_path, "cpu")
    (written,) = (tmp_path / "tensorboard").rglob("events.*")
    watched = events.EventAccumulator(str(written)).Reload()
    steps = [event.step for event in watched.Scalars("train/loss")]
    assert steps == [1, 2, 3]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
