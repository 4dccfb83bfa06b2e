"""Write the rollouts, verdicts and evidence of a large run, as the stages leave them, for other benchmarks.

50 responses to each question in shards of 100 questions. A text is a window of its shard's random letters, so that any number
of bytes is made at the speed of copying; small token ids are frequent, as in real texts. Two in a hundred responses state no
confidence and one in a hundred is truncated. The verdicts are those that `verify` gives.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibsft.artifacts import QUESTIONS, StageFolder, read_manifest, shard_name, write_parquet
from calibsft.evidence.evidence import EXACT
from calibsft.graded import VERIFIER
from calibsft.responses.parse import render
from calibsft.rollouts.collect import ROLLOUT_SCHEMA
from calibsft.rollouts.plan import questions_frame
from calibsft.schema import Question
from calibsft.verify.verdicts import VERDICT_SCHEMA
from calibsft.verify.verifier import grader_name

SAMPLES, SHARD = 50, 100
VOCABULARY = 150_000
UNSTATED, TRUNCATED = 0.02, 0.01
GOLD, OTHER = "7", "8"
GRADER = "math"
# What surrounds the reasoning of a response.
LAYOUT_BYTES = len(render("", GOLD, "0.50"))


def write_run(folder: Path, questions: int, text_bytes: int, tokens: int) -> None:
    """Fill the folders `rollouts`, `verdicts` and `evidence` in `folder`, each a finished stage."""
    asked = [Question(f"question-{i:06d}", f"Question {i}?", GOLD, GRADER, "bench") for i in range(questions)]
    shards = [asked[start : start + SHARD] for start in range(0, questions, SHARD)]
    made = _Stage(folder / "rollouts", "rollout", {})
    made.write(lambda: _write_rollouts(made.path, asked, shards, text_bytes, tokens), lineage=[])
    graded = _Stage(folder / "verdicts", "verify", {"rollout": made.content})
    graded.write(lambda: _each_shard(graded.path, shards, _verdicts), **{VERIFIER: [grader_name(GRADER)]})
    measured = _Stage(folder / "evidence", "evidence", {"rollout": made.content, "verify": graded.content})
    measured.write(lambda: _each_shard(measured.path, shards, _evidence))


class _Stage:
    """A stage that is finished once it was written."""

    def __init__(self, path: Path, kind: str, inputs: dict[str, str]) -> None:
        self.path, self._folder = path, StageFolder(path, kind, {"format": "probability"}, inputs)

    @property
    def content(self) -> str:
        return str(read_manifest(self.path)["content_hash"])

    def write(self, work: Callable[[], None], **facts: Any) -> None:
        self._folder.begin()
        work()
        self._folder.finish(**facts)


def _write_rollouts(
    path: Path, asked: list[Question], shards: list[list[Question]], text_bytes: int, tokens: int
) -> None:
    write_parquet(path / QUESTIONS, questions_frame(asked))
    _each_shard(path, shards, lambda drawn: _rollouts(drawn, text_bytes, tokens))


def _each_shard(path: Path, shards: list[list[Question]], table: Callable[["_Drawn"], pl.DataFrame]) -> None:
    for number, questions in enumerate(shards):
        write_parquet(path / shard_name(number), table(_Drawn(questions)))


class _Drawn:
    """What was drawn for the responses of a shard; the same for all stages."""

    def __init__(self, questions: list[Question]) -> None:
        self.random = random = np.random.default_rng(int(questions[0].id.partition("-")[2]))
        self.rows = rows = len(questions) * SAMPLES
        self.keys = pl.DataFrame(
            {
                "dataset": questions[0].dataset,
                "question_id": np.repeat([question.id for question in questions], SAMPLES),
                "sample": np.tile(np.arange(SAMPLES, dtype=np.int32), len(questions)),
            }
        )
        rates = np.repeat(random.random(len(questions)), SAMPLES)
        self.correct = random.random(rows) < rates
        self.hundredths = random.integers(0, 101, rows)
        self.stated = random.random(rows) >= UNSTATED
        self.finished = random.random(rows) >= TRUNCATED


def _rollouts(drawn: _Drawn, text_bytes: int, tokens: int) -> pl.DataFrame:
    thought = text_bytes - LAYOUT_BYTES
    letters = drawn.random.integers(97, 123, 2 * thought, dtype=np.uint8).tobytes().decode()
    places = drawn.random.integers(0, thought, drawn.rows)
    columns = zip(places, drawn.correct, drawn.hundredths, drawn.stated, strict=True)
    said = [
        _response(letters[place : place + thought], right, hundredths, stated)
        for place, right, hundredths, stated in columns
    ]
    # The cube makes small ids frequent, as in a real text.
    ids = (VOCABULARY * drawn.random.random((drawn.rows, tokens), dtype=np.float32) ** 3).astype(np.int32)
    frame = drawn.keys.with_columns(
        response=pl.Series(said),
        token_ids=pl.Series(ids, dtype=pl.Array(pl.Int32, tokens)).arr.to_list(),
        finished=pl.Series(drawn.finished),
        mean_logprob=pl.Series(-drawn.random.random(drawn.rows)),
        confidence_entropy=pl.lit(0.5),
        forced_answer=pl.lit(None, pl.String),
        finish_reason=pl.when(pl.Series(drawn.finished)).then(pl.lit("stop")).otherwise(pl.lit("length")),
        error=pl.lit(None, pl.String),
    )
    return frame.select(pl.col(name).cast(kind) for name, kind in ROLLOUT_SCHEMA.items())


def _response(thought: str, right: bool, hundredths: int, stated: bool) -> str:
    text = render(thought, GOLD if right else OTHER, f"{hundredths // 100}.{hundredths % 100:02d}")
    return text if stated else text[: text.index("<confidence>")]


def _verdicts(drawn: _Drawn) -> pl.DataFrame:
    right, stated, finished = (pl.Series(drawn.correct), pl.Series(drawn.stated), pl.Series(drawn.finished))
    frame = drawn.keys.with_columns(
        grade=pl.when(right).then(pl.lit("correct")).otherwise(pl.lit("incorrect")),
        correct=right,
        well_formed=stated & finished,
        reason=pl.when(~finished).then(pl.lit("truncated")).when(stated).then(pl.lit("ok")).otherwise(pl.lit("missing_confidence")),
        answer=pl.when(right).then(pl.lit(GOLD)).otherwise(pl.lit(OTHER)),
        confidence=pl.when(stated).then(pl.Series(drawn.hundredths / 100)),
        grader=pl.lit(grader_name(GRADER)),
        ending=pl.when(finished).then(pl.lit("finished")).otherwise(pl.lit("truncated")),
    )  # fmt: skip
    return frame.select(pl.col(name).cast(kind) for name, kind in VERDICT_SCHEMA.items())


def _evidence(drawn: _Drawn) -> pl.DataFrame:
    shares = [
        pl.struct(numerator=pl.Series(drawn.random.integers(1, 11, drawn.rows)), denominator=pl.lit(10)).cast(EXACT).alias(name)
        for name in ("cluster-share", "judge-score")
    ]  # fmt: skip
    logprobs = pl.Series("mean-logprob", -drawn.random.random(drawn.rows)).cast(pl.Float32)
    return drawn.keys.with_columns(logprobs, *shares)
