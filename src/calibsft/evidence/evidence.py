"""The type of evidence: a column with one value per response, and the function that measures it.

Does not know the evidence: `calibsft.evidence.EVIDENCE` lists it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from calibsft.evidence.context import Context
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings

# The type of columns of exact rationals.
EXACT = pl.Struct({"numerator": pl.Int64, "denominator": pl.Int64})


@dataclass(frozen=True, slots=True)
class Evidence:
    """One column of evidence.

    Attributes
    ----------
    name, version
        The column's name, and what artifacts record. Raise the version whenever any value may change.
    description
        The meaning of a value, for people.
    dtype
        The column's type; `EXACT` for exact rationals.
    measure
        Makes the column of one part's rows, null where there is no value. A part has all responses of its
        questions. Columns: dataset, question_id, sample, response, finished, question, answer; of rollouts also
        token_ids, ending, mean_logprob, confidence_entropy, grade, correct, reason, confidence, gold (lists), kind,
        tolerance.
    columns
        Those of them that it reads and that a user's file may lack.
    facts
        What the manifest says of how it was measured, beside the instrument.
    instrument
        The model and settings that decide the values, as text; refuses settings without them. Values of another
        instrument are measured again.
    """

    name: str
    version: int
    description: str
    dtype: pl.DataType | type[pl.DataType]
    measure: Callable[[pl.DataFrame, Context], pl.Series]
    instrument: Callable[[EvidenceSettings, JudgeSettings], str] = lambda settings, judge: ""
    columns: tuple[str, ...] = ()
    facts: Callable[[Context], dict[str, Any]] = lambda context: {}

    def source(self, settings: EvidenceSettings, judge: JudgeSettings) -> str:
        """The name, version and instrument of the column, as text."""
        return f"{self.name}-{self.version} {self.instrument(settings, judge)}".strip()


def exact_column(values: Iterable[Fraction | None]) -> pl.Series:
    """Exact rationals as a column of type `EXACT`."""
    cells = [
        None if value is None else {"numerator": value.numerator, "denominator": value.denominator}
        for value in values
    ]
    return pl.Series(cells, dtype=EXACT)
