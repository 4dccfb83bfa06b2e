"""Parse and grade responses - a folder of rollouts or a user's own file - part by part, resumably.

A part of the verdicts has the rows of its part of the responses. Grading again does not sample again. `correct` is null
if the gold could not be read or the judge gave no verdict: such a response is unscored, not wrong.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import QUESTIONS, shard_name, shards, write_parquet
from calibsft.errors import InputError
from calibsft.files.cells import refuse_where
from calibsft.files.dialect import OURS, Dialect
from calibsft.progress import Progress
from calibsft.responses.formats import Format
from calibsft.responses.parse import Parsed, Reason, parse
from calibsft.schema import KEYS, QUESTION_KEYS, Ending, Grade, Verdict
from calibsft.success_rates import ending_column
from calibsft.verify.files import STATED, read_responses
from calibsft.verify.judged import AnswerJudge
from calibsft.verify.verifier import Verifier, grade_item

PART_ROWS = 10_000
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
    "grader": pl.String,
    "ending": pl.String,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the responses, and the name of the file of their verdicts."""

    name: str
    rows: int
    read: Callable[[], pl.DataFrame]


def verify_responses(
    responses: Path,
    confidence_format: Format,
    folder: Path,
    label: str,
    judge: AnswerJudge | None = None,
    dialect: Dialect = OURS,
) -> list[str]:
    """Write verdict shards for a folder of rollouts or a user's file; returns the names of the graders."""
    parts = _rollout_parts(responses) if responses.is_dir() else _file_parts(responses, dialect)
    total = sum(part.rows for part in parts)
    with Verifier(judge) as verifier:
        missing = [part for part in parts if not _is_graded(folder / part.name, verifier)]
        done = total - sum(part.rows for part in missing)
        with Progress(label, total, "responses", done) as progress:
            for part in missing:
                verdicts = verify(part.read(), confidence_format, verifier, progress.counter())
                write_parquet(folder / part.name, verdicts_frame(verdicts))
    written = pl.scan_parquet([folder / part.name for part in parts])
    return sorted(written.select("grader").unique().collect().to_series().to_list())


def _file_parts(path: Path, dialect: Dialect) -> list[Part]:
    frame = read_responses(path, dialect)
    return [
        Part(shard_name(number), min(PART_ROWS, len(frame) - start), partial(frame.slice, start, PART_ROWS))
        for number, start in enumerate(range(0, len(frame), PART_ROWS))
    ]


def _rollout_parts(rollouts: Path) -> list[Part]:
    found = shards(rollouts)
    if not found:
        raise InputError(
            f"{rollouts}: no rollouts there (part-*.parquet); give the folder that calibsft rollout wrote, or a"
            " .csv, .jsonl or .parquet file of responses"
        )
    rows = [int(pl.scan_parquet(shard).select(pl.len()).collect().item()) for shard in found]
    # Token ids are half of a shard and not graded.
    read = partial(rollout_rows, without=("token_ids",))
    return [Part(shard.name, count, partial(read, shard)) for shard, count in zip(found, rows, strict=True)]


def rollout_rows(shard: Path, without: Sequence[str] = ()) -> pl.DataFrame:
    """The responses of a shard of rollouts, `without` some columns, with their questions and how they ended."""
    questions = pl.read_parquet(shard.parent / QUESTIONS)
    rows = pl.scan_parquet(shard).drop(without).collect()
    asked = rows.join(questions, on=QUESTION_KEYS, how="left", maintain_order="left")
    foreign = "question {cell} is not among the folder's questions; move the foreign shard out of the folder"
    refuse_where(shard, asked["grader"].is_null(), asked["question_id"], foreign)
    ending = ending_column(forced=pl.col("forced_answer").is_not_null())
    return asked.with_columns(ending).rename({"forced_answer": "other_answer"})


def _is_graded(path: Path, verifier: Verifier) -> bool:
    """Whether a part exists and has the columns and graders of today; verdicts of two versions must not mix."""
    if not path.is_file() or pl.read_parquet_schema(path) != VERDICT_SCHEMA:
        return False
    return all(map(verifier.is_current, pl.read_parquet(path, columns=["grader"])["grader"].unique()))


def verify(
    responses: pl.DataFrame,
    confidence_format: Format,
    verifier: Verifier,
    on_progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """The verdict of every response, in order.

    Parameters
    ----------
    responses
        Columns dataset, question_id, sample, response, finished, ending, other_answer (graded where the response
        holds no answer, or was made to give this one), question, gold (lists), grader, tolerance; and optionally
        `stated`, confidences that count instead of those in the text: NaN for one that cannot be read, null for none.
    """
    rows = responses.to_dicts()
    parsed = [_parsed(row, confidence_format) for row in rows]
    # Unclosed reasoning may mention an answer; the one that the model was made to give counts instead.
    answers = [
        row["other_answer"] if p.answer is None or row["ending"] == Ending.FORCED else p.answer
        for row, p in zip(rows, parsed, strict=True)
    ]
    items = [
        grade_item(row["grader"], row["gold"], answer, row["tolerance"], row["question"])
        for row, answer in zip(rows, answers, strict=True)
    ]
    grades = verifier.grade_all(items, on_progress)
    graders = [verifier.name_of(row["grader"]) for row in rows]
    keys = responses.select(KEYS).iter_rows()
    found = zip(keys, grades, parsed, answers, graders, responses["ending"], strict=True)
    return [
        Verdict(dataset, question_id, sample, grade, p.reason.value, answer, p.value, grader, Ending(ending))
        for (dataset, question_id, sample), grade, p, answer, grader, ending in found
    ]


def _parsed(row: dict[str, Any], confidence_format: Format) -> Parsed:
    """The parsed response; where a column states its confidence, the form of the text does not matter."""
    parsed = parse(row["response"], confidence_format, finished=row["finished"])
    if (stated := row.get(STATED)) is None:
        return parsed
    value = None if math.isnan(stated) else Fraction(repr(stated))
    reason = Reason.BAD_CONFIDENCE if value is None else Reason.OK
    reason = reason if row["finished"] else Reason.TRUNCATED
    return replace(parsed, ok=reason is Reason.OK, reason=reason, value=value, value_span=None)


def count_verdicts(folder: Path) -> dict[str, Any]:
    """Counts of a folder of verdicts, overall and by dataset: rows by grade and by form, and the share correct of the scored."""
    columns = ("dataset", "grade", "correct", "grader", "well_formed", "reason")
    rows = pl.scan_parquet(shards(folder)).select(columns).collect()
    parts = rows.partition_by("dataset", as_dict=True)
    return {
        "graders": sorted(rows["grader"].unique()),
        "overall": _counts(rows),
        "datasets": {str(name): _counts(part) for (name,), part in sorted(parts.items())},
    }


def _counts(rows: pl.DataFrame) -> dict[str, Any]:
    grades = dict(rows["grade"].value_counts().iter_rows())
    reasons = dict(rows["reason"].value_counts().iter_rows())
    return {
        "n": len(rows),
        "correct": rows["correct"].mean(),
        "unscored": rows["correct"].null_count(),
        "grades": {grade.value: grades[grade.value] for grade in Grade if grade.value in grades},
        "well_formed": rows["well_formed"].mean(),
        "reasons": {r.value: reasons[r.value] for r in Reason if r.value in reasons and r is not Reason.OK},
    }


def verdicts_frame(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """Verdicts as a table, confidences as floats."""
    columns = {name: [getattr(v, name) for v in verdicts] for name in VERDICT_SCHEMA}
    columns["confidence"] = [None if v.confidence is None else float(v.confidence) for v in verdicts]
    columns["correct"] = [v.correct if v.grade.scored else None for v in verdicts]
    return pl.DataFrame(columns, schema=VERDICT_SCHEMA)
