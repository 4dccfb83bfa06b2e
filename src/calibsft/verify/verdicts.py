"""Parse and grade a folder of rollouts, shard by shard, resumably.

A verdict shard has the rows of its rollout shard. Re-grading never samples again. `correct` is null where the
gold answer itself could not be read: such a response is unscored, not wrong.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from calibsft.artifacts import shards, write_parquet
from calibsft.errors import InputError
from calibsft.progress import Progress
from calibsft.responses.formats import Format
from calibsft.responses.parse import Parsed, parse
from calibsft.schema import Grade, Verdict
from calibsft.verify import GRADERS
from calibsft.verify.grader import GradeItem
from calibsft.verify.pool import VerifierPool

VERDICT_SCHEMA = {
    "dataset": pl.String,
    "question_id": pl.String,
    "sample": pl.Int32,
    "grade": pl.String,
    "correct": pl.Boolean,
    "well_formed": pl.Boolean,
    "reason": pl.String,
    "answer": pl.String,
    "confidence": pl.Float64,
}


def verify_folder(rollouts: Path, confidence_format: Format, folder: Path, label: str) -> dict[str, int]:
    """Write a verdict shard for every rollout shard; returns the graders' versions."""
    if not shards(rollouts):
        raise InputError(
            f"{rollouts}: no rollouts there (part-*.parquet); give the folder that calibsft rollout wrote"
        )
    questions = pl.read_parquet(rollouts / "questions.parquet")
    golds = {
        (d, q): (kind, tuple(gold))
        for d, q, gold, kind in questions.select("dataset", "question_id", "gold", "grader").iter_rows()
    }
    missing = [shard for shard in shards(rollouts) if not (folder / shard.name).is_file()]
    counts = {shard: pl.scan_parquet(shard).select(pl.len()).collect().item() for shard in shards(rollouts)}
    done = sum(count for shard, count in counts.items() if shard not in missing)
    with VerifierPool() as pool, Progress(label, sum(counts.values()), "responses", done) as progress:
        for shard in missing:
            write_parquet(
                folder / shard.name,
                verdicts_frame(verify(pl.read_parquet(shard), golds, confidence_format, pool)),
            )
            progress.advance(counts[shard])
    return {kind: GRADERS[kind].version for kind in sorted({kind for kind, _ in golds.values()})}


def verify(
    rollouts: pl.DataFrame,
    golds: dict[tuple[str, str], tuple[str, tuple[str, ...]]],
    confidence_format: Format,
    pool: VerifierPool,
) -> list[Verdict]:
    """The verdict of every rollout; `golds` maps (dataset, question_id) to grader and aliases."""
    rows = list(rollouts.select("dataset", "question_id", "sample", "response", "finished").iter_rows())
    parsed = [parse(response, confidence_format, finished=finished) for *_, response, finished in rows]
    items = [
        GradeItem(*golds[dataset, question], p.answer)
        for (dataset, question, *_), p in zip(rows, parsed, strict=True)
        if p.answer is not None
    ]
    grades = iter(pool.grade_all(items))
    return [
        _verdict(row[0], row[1], row[2], p, next(grades) if p.answer is not None else None)
        for row, p in zip(rows, parsed, strict=True)
    ]


def _verdict(dataset: str, question_id: str, sample: int, parsed: Parsed, grade: Grade | None) -> Verdict:
    # No answer to grade is an unreadable answer, which counts as wrong.
    return Verdict(
        dataset,
        question_id,
        sample,
        grade or Grade.UNPARSED_ANSWER,
        parsed.reason.value,
        parsed.answer,
        parsed.value,
    )


def verdicts_frame(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """Verdicts as a table, confidences as floats."""
    columns = {
        name: [getattr(v, name) for v in verdicts]
        for name in VERDICT_SCHEMA
        if name not in {"confidence", "correct"}
    }
    columns["confidence"] = [None if v.confidence is None else float(v.confidence) for v in verdicts]
    columns["correct"] = [v.correct if v.grade.scored else None for v in verdicts]
    return pl.DataFrame(columns, schema=VERDICT_SCHEMA)
