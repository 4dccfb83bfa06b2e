"""Score a user's own file: which of its rows count, and what happens to confidences that cannot be read.

A file is read and counted batch by batch, so it may be of any length. Does not read single cells (`files.cells` does),
compute metrics (`score` does) or parse model responses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import (
    COUNTED,
    EMPTY,
    NO_BOOLEAN,
    Fault,
    require_policy,
    tell_unread,
    text_column,
    truth_column,
)
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import batches
from calibsft.files.scales import ScaleGuess
from calibsft.metrics.compare import differences
from calibsft.metrics.counts import KEYS, Counts, Tally
from calibsft.metrics.result import Scores
from calibsft.metrics.score import score_counts
from calibsft.metrics.selection import Where
from calibsft.responses.actionable import actionable

EVERYTHING = Where()
# Optional columns about the layout of a response: whether it is well formed, and why not.
FORM = ("well_formed", "reason")
COLUMNS = (*KEYS, *FORM)
UNREADABLE = (
    "{column} {cell} is not a number in [0, 1]; run with --malformed drop to skip such rows ({rows} found)"
)


def score_file(
    path: Path,
    malformed: str | None = None,
    by: str = "dataset",
    intervals: bool = False,
    baseline: Path | None = None,
    progress: bool = False,
    where: Where = EVERYTHING,
    check: bool = False,
    dialect: Dialect = OURS,
) -> Scores:
    """Score a CSV, JSONL or Parquet file, a folder of verdicts or an evaluation; see `score_table` for columns and result.

    Parameters
    ----------
    path : the file; confidences are numbers or ASCII decimals such as 0.73 or 1e-3.
    malformed : what happens to any other confidence: "error" refuses the file, "counted" counts it as 0, "drop"
        leaves the row out. None: "counted", with a warning.
    by : the column whose values are scored separately.
    intervals : add intervals by drawing questions.
    baseline : another such file with the same questions; `against` then holds the paired differences.
    progress : show progress on standard error.
    where : which rows of both files to score.
    check : add calibration checks.
    dialect : the names of both files' columns, and the scale of their confidences.

    Returns
    -------
    The result of `score_table`, and `dropped`, the number of rows left out.
    """
    file = ScoredFile(path, malformed, by, where=where, dialect=dialect)
    counts = file.count(intervals or check or baseline is not None)
    if baseline is None:
        found = score_counts(counts, intervals, progress=progress, check=check)
    else:
        other = ScoredFile(baseline, malformed, by, where=where, dialect=dialect).count(True)
        pair = _drawable(path, counts), _drawable(baseline, other)
        found = score_counts(counts, intervals, progress=progress, check=check)
        found["against"] = differences(*pair, progress=progress)
        found["against"]["baseline"] = str(baseline)
    found["dropped"] = file.dropped
    return found


def _drawable(path: Path, counts: Counts) -> pl.DataFrame:
    if counts.rows is None or counts.questions is None:
        raise InputError(
            f"{path}: column 'question_id' is missing; differences are drawn by question: add it"
        )
    return counts.rows


@dataclass
class ScoredFile:
    """The rows of a file that are scored, batch by batch, with all of `COLUMNS`; mistakes are refused after the last batch.

    Parameters
    ----------
    for_decisions : treat confidences that a decision may not act on as missing
        (`responses.actionable`), require question ids, and number the rows, from 1, in a column `row`.
    where : which rows to take; the others are not checked.
    unread_are : what the warning says of rows without a readable confidence, if `malformed` is None.
    also : further columns that `read` returns as texts.
    dialect : the names of the file's columns, and the scale of its confidences.

    Attributes
    ----------
    dropped : how many rows are left out: those that the policy drops, and verdicts without a readable gold.
    missing : columns of `COLUMNS` that the file does not have, and `dataset` if it has only empty texts; known after the
        last batch.
    """

    path: Path
    malformed: str | None
    by: str = "dataset"
    for_decisions: bool = False
    where: Where = EVERYTHING
    unread_are: str = COUNTED
    also: Sequence[str] = ()
    dialect: Dialect = OURS

    def __post_init__(self) -> None:
        require_policy(self.malformed)
        self.dialect = self.dialect.at(self.path)
        self._guess = ScaleGuess()
        # If another column gives the datasets, the file's splits do not apply.
        self._columns = {"dataset": self.by, "question_id": "question_id"}
        self._columns |= {"split": "split"} if self.by == "dataset" else {}
        self._present: set[str] = set()
        self._faults: dict[tuple[str, str], Fault] = {}
        self.dropped = self._read = self._taken = self._kept = 0
        self._named = False

    def read(self) -> pl.DataFrame:
        """All rows as one table."""
        return pl.concat(list(self)).drop(self.missing)

    def count(self, keep_rows: bool) -> Counts:
        """The counts of all rows."""
        tally = Tally(KEYS, keep_rows)
        for rows in self:
            tally.add(rows)
        return tally.counts(without=self.missing)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        required = [
            "confidence",
            "correct",
            *(["question_id"] if self.for_decisions else []),
            *self.where.columns,
            *self.also,
        ]
        required += [] if self.by == "dataset" else [self.by]
        wanted = dict.fromkeys([*required, "grade", *FORM, *self._columns.values()])
        for batch in batches(self.path, list(wanted), required, self.dialect):
            self._present |= batch.present
            rows = self._checked(batch.rows)
            self._read += batch.rows.height
            self._kept += rows.height
            yield rows
        self._refuse()
        fault = self._faults.get(("unread", "confidence"))
        if self.malformed is None and fault:
            tell_unread(self.path, fault, self._taken, self.unread_are)

    @property
    def missing(self) -> list[str]:
        sources = self._columns | {name: name for name in FORM}
        absent = [name for name in COLUMNS if sources.get(name) not in self._present]
        return absent if self._named or "dataset" in absent else ["dataset", *absent]

    def _checked(self, raw: pl.DataFrame) -> pl.DataFrame:
        """The rows of a batch that are scored."""
        self._numbers = np.flatnonzero(self.where.mask(raw))
        raw = raw[self._numbers] if self.where else raw
        rows = self._judged(raw)
        self._note_mistakes(raw, rows)
        self._taken += raw.height
        self._named |= bool((rows["dataset"] != "").any())
        # Only unreadable confidences are dropped; one that a decision may not act on still counts.
        keep = rows["correct"].is_not_null()
        if self.malformed == "drop":
            keep &= rows["confidence"].is_not_null()
        if self.for_decisions:
            rows = rows.with_columns(actionable(rows), row=self._read + self._numbers + 1)
        kept = rows.filter(keep)
        self.dropped += rows.height - kept.height
        return kept

    def _judged(self, raw: pl.DataFrame) -> pl.DataFrame:
        """The cells as values; null if a cell cannot be read."""
        return pl.DataFrame(
            {
                "confidence": self.dialect.confidences(raw["confidence"]),
                "correct": truth_column(self.path, raw, "correct"),
                "split": pl.repeat(None, len(raw), dtype=pl.String, eager=True),
                **{key: text_column(self.path, raw, name) for key, name in self._columns.items()},
                "well_formed": truth_column(self.path, raw, "well_formed"),
                "reason": reason_column(raw),
                **{name: raw[name].cast(pl.String) for name in self.also},
            }
        )

    def _note_mistakes(self, raw: pl.DataFrame, rows: pl.DataFrame) -> None:
        # A row without correctness is not scored. It is a verdict without a readable gold, or a mistake.
        empty = raw["correct"].is_null()
        self._note("empty", raw["correct"], empty)
        for name in ("correct", "confidence"):
            self._note("unread", raw[name], rows[name].is_null() & ~empty)
        for name in self._columns.values():
            self._note("empty", raw[name], raw[name].is_null() & ~empty)
        self._guess.add(raw["confidence"], rows["confidence"])
        form = raw["well_formed"]
        self._note("unread", form, rows["well_formed"].is_null() & form.is_not_null())

    def _note(self, mistake: str, cells: pl.Series, wrong: pl.Series) -> None:
        """Remember the first wrong row by its place in the file, and the number of wrong rows."""
        if fault := Fault.of(wrong, cells):
            if known := self._faults.get((mistake, cells.name)):
                known.rows += fault.rows
            else:
                fault.row = self._read + int(self._numbers[fault.row - 1]) + 1
                self._faults[mistake, cells.name] = fault

    def _refuse(self) -> None:
        """Refuse mistakes in any row that is taken, empty cells first."""
        if self._taken == 0:
            self.where.refuse_none(self.path, self.dialect)
        for column in ("correct", *self._columns.values()):
            # In a file with grades, an empty `correct` is a verdict without a readable gold.
            allowed = column == "correct" and "grade" in self._present
            if column in self._present and not allowed and (fault := self._faults.get(("empty", column))):
                fault.refuse(self.path, EMPTY)
        self.dialect.refuse_other_scale(self.path, self._guess)
        if self.malformed == "error" and (fault := self._faults.get(("unread", "confidence"))):
            fault.refuse(self.path, self.dialect.unread(UNREADABLE))
        for column in ("correct", "well_formed"):
            if fault := self._faults.get(("unread", column)):
                fault.refuse(self.path, NO_BOOLEAN)
        if self._kept == 0:
            raise InputError(
                f"{self.path}: no row has a readable confidence; write numbers in [0, 1] into that column"
            )


def reason_column(raw: pl.DataFrame) -> pl.Series:
    """The parser's reason for each row; null if the column does not hold texts."""
    reason = raw["reason"]
    return reason if reason.dtype == pl.String else pl.Series("reason", [None] * len(raw), dtype=pl.String)
