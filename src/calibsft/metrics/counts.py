"""Counts of responses, which is all that scores need: a few numbers per confidence and per question.

A `Tally` takes the rows in any number of parts and in any order; its counts are the same to the last bit. Does not check
its rows (`files` and `score` do) and computes no metric.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from calibsft.metrics.questions import question_sums

KEYS = ("dataset", "split", "question_id")
# Partial sums are added up when they have more rows than this.
PENDING_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Counted responses.

    Attributes
    ----------
    values : `n`, how often each (`dataset`, `split`, `confidence`, `correct`) occurs, and `malformed`, how many of those
        are not well formed, if that is known; a null confidence is unreadable.
    questions : the `question_sums` of each (`dataset`, `question_id`); None without question ids.
    rows : every response in a compact form; kept only if questions are to be drawn.
    """

    values: pl.DataFrame
    questions: pl.DataFrame | None
    rows: pl.DataFrame | None


@dataclass(slots=True)
class _Sums:
    """Adds up the rows of frames that have equal keys."""

    keys: Sequence[str]
    parts: list[pl.DataFrame] = field(default_factory=list)
    pending: int = 0

    def add(self, part: pl.DataFrame) -> None:
        self.parts.append(part)
        self.pending += part.height
        if self.pending > max(PENDING_ROWS, self.parts[0].height):
            self.total()

    def total(self) -> pl.DataFrame:
        sums = pl.concat([part.lazy() for part in self.parts]).group_by(self.keys).agg(pl.all().sum())
        self.parts = [sums.collect(engine="streaming")]
        self.pending = 0
        return self.parts[0]


class Tally:
    """Counts rows part by part.

    Parameters
    ----------
    keys : which of `dataset`, `split` and `question_id` the rows have.
    keep_rows : whether to keep every row, at about 20 bytes each.
    """

    def __init__(self, keys: Sequence[str], keep_rows: bool = False) -> None:
        self._of_values = [key for key in keys if key != "question_id"] + ["confidence", "correct"]
        self._of_questions = [key for key in keys if key != "split"]
        self._values = _Sums(self._of_values)
        self._questions = _Sums(self._of_questions) if "question_id" in keys else None
        self._rows: list[pl.DataFrame] | None = [] if keep_rows else None

    def add(self, rows: pl.DataFrame) -> None:
        """Count `rows`: `confidence` as a float in [0, 1] or null, `correct` as a boolean, the keys, and `well_formed` if known."""
        if self._rows is not None:
            rows = compact(rows)
            self._rows.append(rows)
        has_form = "well_formed" in rows.columns
        malformed = {"malformed": (~pl.col("well_formed")).sum().cast(pl.Int64)} if has_form else {}
        self._values.add(rows.group_by(self._of_values).agg(n=pl.len().cast(pl.Int64), **malformed))
        if self._questions:
            counted = rows.with_columns(pl.col("confidence").fill_null(0))
            self._questions.add(question_sums(counted, self._of_questions))

    def counts(self, without: Sequence[str] = ()) -> Counts:
        """The counts so far, without the columns in `without`, which are the same in all rows."""
        without = [*without, "malformed"] if "well_formed" in without else without
        questions = None
        if self._questions and "question_id" not in without:
            questions = self._questions.total().drop(without, strict=False)
        rows = None if self._rows is None else pl.concat(self._rows).drop(without, strict=False)
        return Counts(self._values.total().drop(without, strict=False), questions, rows)


def compact(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with names coded as numbers."""
    names = [name for name in KEYS if name in rows.columns and rows[name].dtype != pl.Categorical]
    coded = rows.with_columns(pl.col(names).cast(pl.String).cast(pl.Categorical))
    kept = [name for name in (*KEYS, "well_formed") if name in rows.columns]
    return coded.select(*kept, "confidence", "correct")
