"""What went into a training set and what came out of it."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import polars as pl

from calibsft.schema import STRATUM

SUMMARY = "targets.json"
HISTOGRAMS = ("before", "after", "dropped_groups")


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """What went in and what came out; the histograms count responses by stratum.

    `pairs` is the number of questions of each success rate in a pool of pairs, and None for another training set.
    """

    target: str
    format: str
    from_format: str
    responses: int
    questions: int
    endings: dict[str, int]
    filtered: dict[str, int]
    before: dict[Fraction, int]
    after: dict[Fraction, int]
    group_size: int
    dropped_groups: dict[Fraction, int]
    rows: int
    rows_questions: int
    pairs: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {name: _written(getattr(self, name)) for name in HISTOGRAMS}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The summary that an earlier build wrote into `folder`."""
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return cls(**found | {name: {Fraction(t): n for t, n in found[name].items()} for name in HISTOGRAMS})


def _written(histogram: dict[Fraction, int]) -> dict[str, int]:
    return {f"{target.numerator}/{target.denominator}": count for target, count in sorted(histogram.items())}


def histogram(rows: pl.DataFrame) -> Counter[Fraction]:
    """Number of rows by stratum."""
    return Counter({Fraction(n, d): count for n, d, count in rows.group_by(STRATUM).len().iter_rows()})
