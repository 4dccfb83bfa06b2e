"""Reads the responses to calibrate on: users' files, folders of verdicts and evaluations, of one model or of two.

A file is read as `calibsft score` reads it. A confidence that no decision may act on counts as missing
(`responses.actionable`), as in a gateway. Does not decide anything.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import MANIFEST, file_hash, read_manifest, recorded_settings, shards
from calibsft.decisions.by_question import ByQuestion
from calibsft.errors import InputError
from calibsft.files import cells
from calibsft.files.columns import require_columns
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import column_names, own_table, read_columns, read_table
from calibsft.metrics.files import COLUMNS, EVERYTHING, ScoredFile, reason_column
from calibsft.metrics.selection import Where
from calibsft.responses.actionable import actionable
from calibsft.schema import KEYS, QUESTION_KEYS

ROUTING_COLUMNS = ("question_id", "confidence", "local_correct", "strong_correct")
TOKENS = "strong_tokens"
NO_TOKENS = "{column} {cell} is not a number of tokens ({rows} such rows); write numbers of 0 or more, or leave the column out"
UNREADABLE = (
    "{column} {cell} is not a number in [0, 1]; run with --malformed counted to defer such rows, or drop to skip them"
    " ({rows} found)"
)
# The strong model's responses are drawn independently of the local model's.
STRONG_STREAM = (0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Responses to calibrate on, and what is known of their origin.

    Attributes
    ----------
    rows : confidence (null if there is none) and correctness; for routing, of both models; `row`, their
        numbers in the file, from 1.
    questions : which question each row answers; the same id in two datasets is two questions.
    left_out : how many rows do not count: those without a readable gold, and dropped ones without a confidence.
    known : `data_hash`; for an evaluation also its model, format, template and sampling.
    """

    rows: pl.DataFrame
    questions: pl.Series
    left_out: int
    known: dict[str, Any]


def read_calibration(
    path: Path,
    malformed: str | None = None,
    where: Where = EVERYTHING,
    also: Sequence[str] = (),
    dialect: Dialect = OURS,
) -> Calibration:
    """One model's responses.

    Parameters
    ----------
    path : CSV, JSONL or Parquet with confidence, correct, question_id; a folder of verdicts or of an evaluation.
    malformed : what happens to rows without a readable confidence: "error", "drop", or "counted", as never answered.
        None: "counted", with a warning.
    where : which rows to take.
    also : further columns to keep.
    dialect : the names of the file's columns, and the scale of its confidences.
    """
    more = tuple(name for name in also if name not in COLUMNS)
    unread_are = cells.NEVER_CONFIDENT
    file = ScoredFile(
        path, malformed, for_decisions=True, where=where, unread_are=unread_are, also=more, dialect=dialect
    )
    rows = file.read()
    return Calibration(rows, question_column(rows), file.dropped, _known(path, where, dialect))


def read_routing(
    path: Path,
    strong: Path | None,
    malformed: str | None,
    choice: str | None,
    seed: int = 0,
    where: Where = EVERYTHING,
    also: Sequence[str] = (),
    dialect: Dialect = OURS,
) -> Calibration:
    """Two models' responses: one file with both, or the strong model's in another file or folder, `strong`.

    Parameters
    ----------
    choice : which of several strong responses to a question counts; None refuses them, "random" is drawn with `seed`.
    where : which rows of `path` to take.
    also : further columns of `path` to keep.
    dialect : the names of the columns in both files, and the scale of their confidences.
    """
    if strong is None:
        rows, left_out = _routing_rows(path, malformed, where, also, dialect)
        return Calibration(rows, question_column(rows), left_out, _known(path, where, dialect))
    local = read_calibration(path, malformed, where, also, dialect)
    keys = [name for name in QUESTION_KEYS if name in local.rows.columns]
    rows = local.rows.rename({"correct": "local_correct"}).join(
        _strong_rows(strong, keys, choice, seed, dialect), on=keys, how="left", maintain_order="left"
    )
    missing = rows["strong_correct"].is_null()
    if missing.any():
        name = cells.shown(", ".join(rows.select(keys).row(cells.row_of(missing) - 1)))
        raise InputError(
            f"{strong}: question {name} of {path} is not there ({missing.sum()} such rows); give the strong model's"
            " responses to the same questions"
        )
    both = f"{local.known['data_hash']} {_hash(strong)}"
    known = {**local.known, "data_hash": hashlib.sha256(both.encode()).hexdigest()}
    return Calibration(rows, question_column(rows), local.left_out, known)


def read_batch(path: Path, dialect: Dialect = OURS) -> tuple[pl.DataFrame, pl.Series]:
    """A batch to choose answers from: all its columns, and the confidences, null for an answer that is never kept.

    Needs no labels: columns that `dialect` names and the batch lacks are not looked for. Several answers to one question
    are refused: they err together.
    """
    spoken = dialect.at(path).among(column_names(path))
    frame = read_table(path, ["confidence"], filled=[], dialect=spoken)
    confidence = dialect.read_confidences(path, frame["confidence"])
    if fault := cells.Fault.of(confidence.is_null(), frame["confidence"]):
        cells.tell_unread(path, fault, frame.height, cells.NEVER_CONFIDENT)
    if "question_id" in frame.columns:
        repeated = question_column(frame).is_duplicated()
        if repeated.any():
            name = cells.shown(frame["question_id"][cells.row_of(repeated) - 1])
            raise InputError(
                f"{path}: question {name} has several answers, which err together; keep one per question, chosen without"
                " looking at it"
            )
    judged = pl.DataFrame([confidence, *_form(path, frame)])
    return own_table(path, spoken) if spoken.columns else frame, actionable(judged)


def question_column(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.struct(name for name in QUESTION_KEYS if name in rows.columns)).to_series()


def _routing_table(path: Path, dialect: Dialect) -> pl.DataFrame:
    """The table in a file with both models' correctness; any other is refused."""
    frame = None if path.is_dir() else read_table(path, dialect=dialect)
    if frame is None or ("correct" in frame.columns and "local_correct" not in frame.columns):
        raise InputError(
            f"{path}: these are one model's responses; give the strong model's responses to the same questions with --strong"
        )
    require_columns(path, frame.columns, ROUTING_COLUMNS, OURS)
    return frame.with_columns(row=pl.int_range(1, pl.len() + 1))


def _routing_rows(
    path: Path, malformed: str | None, where: Where, also: Sequence[str], dialect: Dialect
) -> tuple[pl.DataFrame, int]:
    """The rows of a file with both models' correctness, and how many are left out."""
    cells.require_policy(malformed)
    frame = where.of_file(path, _routing_table(path, dialect), dialect)
    require_columns(path, frame.columns, also, OURS)
    # Errors below count only the rows that are taken.
    path = Path(f"{path} where {where}") if where else path
    for name in ROUTING_COLUMNS:
        if name != "confidence":
            cells.require_filled(path, frame, name)
    confidence = dialect.read_confidences(path, frame["confidence"])
    unread = confidence.is_null()
    if fault := cells.Fault.of(unread, frame["confidence"]):
        if malformed == "error":
            fault.refuse(path, dialect.unread(UNREADABLE))
        if malformed is None:
            cells.tell_unread(path, fault, frame.height, cells.NEVER_CONFIDENT)
    frame = frame.with_columns(confidence, *_form(path, frame))
    verdicts = [cells.boolean_column(path, frame, name) for name in ("local_correct", "strong_correct")]
    tokens = [_token_column(path, frame)] if TOKENS in frame.columns else []
    rows = frame.with_columns(actionable(frame), *verdicts, *tokens)
    kept = rows.filter(~unread) if malformed == "drop" else rows
    return kept, rows.height - kept.height


def _form(path: Path, frame: pl.DataFrame) -> list[pl.Series]:
    """The columns that say whether responses are well formed; a cell that is neither empty nor a boolean is refused."""
    if "well_formed" not in frame.columns:
        return []
    given, well_formed = frame["well_formed"], cells.truth_column(path, frame, "well_formed")
    cells.refuse_where(path, well_formed.is_null() & given.is_not_null(), given, cells.NO_BOOLEAN)
    return [well_formed, reason_column(frame)] if "reason" in frame.columns else [well_formed]


def _token_column(path: Path, frame: pl.DataFrame) -> pl.Series:
    tokens = cells.text_column(path, frame, TOKENS).cast(pl.Float64, strict=False)
    cells.refuse_where(path, ~(tokens.is_finite() & (tokens >= 0)).fill_null(False), frame[TOKENS], NO_TOKENS)
    return tokens


def _strong_rows(
    path: Path, keys: list[str], choice: str | None, seed: int, dialect: Dialect
) -> pl.DataFrame:
    """One verdict of the strong model per question, with its tokens if they are known; no confidence is needed."""
    wanted = [*KEYS, "correct", "grade", TOKENS]
    found = read_columns(path, wanted, [*keys, "correct"], dialect)
    if found["grade"].is_null().all():  # only graded verdicts may lack `correct`: their gold is unreadable
        cells.require_filled(path, found, "correct")
    for name in keys:
        cells.require_filled(path, found, name)
    if "dataset" not in keys:
        _refuse_several_datasets(path, found)
    found = found.with_columns(cells.text_column(path, found, name) for name in keys).drop_nulls("correct")
    verdicts = found.select(*keys, cells.boolean_column(path, found, "correct").alias("strong_correct"))
    tokens = _strong_tokens(path, found)
    verdicts = verdicts if tokens is None else verdicts.with_columns(tokens)
    question = question_column(verdicts)
    chosen = ByQuestion.of(verdicts.with_columns(question=question), choice, question)
    return chosen.one_each(seed, *STRONG_STREAM).drop("question")


def _refuse_several_datasets(path: Path, found: pl.DataFrame) -> None:
    """Refuse an id that is in two datasets: it is two questions, and the local file has no datasets to match them."""
    several = found.select(pl.col("dataset").n_unique().over("question_id") > 1).to_series()
    if several.any():
        name = cells.shown(found["question_id"][cells.row_of(several) - 1])
        raise InputError(
            f"{path}: question {name} is in several datasets; add a column dataset to the local model's responses"
        )


def _strong_tokens(path: Path, found: pl.DataFrame) -> pl.Series | None:
    """The tokens of each response: from the rollouts of an evaluation, or from the file."""
    if not shards(path / "rollouts"):
        return None if found[TOKENS].is_null().all() else _token_column(path, found)
    lengths = pl.concat(
        pl.read_parquet(shard, columns=[*KEYS, "token_ids"]).select(
            *KEYS, pl.col("token_ids").list.len().cast(pl.Float64).alias(TOKENS)
        )
        for shard in shards(path / "rollouts")
    )
    return found.drop(TOKENS).join(lengths, on=KEYS, how="left", maintain_order="left")[TOKENS]


def _known(path: Path, where: Where, dialect: Dialect) -> dict[str, Any]:
    """The hash of the data (and of how and how far they were read), and what an evaluation recorded."""
    content, spoken = _hash(path), dialect.at(path)
    how = [*([f"where {where}"] if where else []), *spoken.options]
    part = hashlib.sha256(" ".join([content, *how]).encode()).hexdigest() if how else content
    known: dict[str, Any] = {"data_hash": part}
    if not (path / MANIFEST).is_file():
        return known
    settings, manifest = recorded_settings(path), read_manifest(path)
    if "eval" in settings:
        sampled = settings["eval"]
        known["sampling"] = {
            "temperature": sampled["temperature"],
            "top_p": sampled["top_p"],
            "max_tokens": sampled["max_new_tokens"],
            "stop": sampled["stop"],
        }
    known["model"], known["format"] = manifest.get("model"), settings.get("format", "probability")
    known["template"] = settings.get("template", {})
    return known


def _hash(path: Path) -> str:
    if path.is_dir() and (path / MANIFEST).is_file():
        return str(read_manifest(path)["content_hash"])
    if path.is_dir():
        raise InputError(
            f"{path}: not a finished evaluation or folder of verdicts; run that stage to its end"
        )
    return file_hash(path)
