"""The scales on which files write confidences, each a way to read a column as numbers in [0, 1].

What is on a scale becomes the float nearest to its exact value: 12.3 % is 0.123. Does not choose a scale: `ScaleGuess` only says
which one the numbers look like, for a complaint.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import polars as pl

from calibsft.errors import unknown_name
from calibsft.files.cells import CONFIDENCE_TEXT, confidence_column
from calibsft.responses.formats import get_format

PROBABILITY, PERCENT, DIGIT = "probability", "percent", "digit"
HUNDRED, LARGEST_DIGIT = 100, 9
_DIGIT = r"\A([0-9])(?:\.0*)?\z"


@dataclass(frozen=True, slots=True)
class Scale:
    """One scale.

    Attributes
    ----------
    unread : the complaint about a number that is not on the scale.
    read : a column as numbers in [0, 1], null where a cell is not on the scale.
    format : how a response writes a confidence on it; None if no format of ours does.
    """

    name: str
    unread: str
    read: Callable[[pl.Series], pl.Series]
    format: str | None


def _percentages(raw: pl.Series) -> pl.Series:
    """Percentages, with or without their sign."""
    text = _numbers(raw)
    exponent = text.str.extract("[eE](.*)").fill_null("0").cast(pl.Int32, strict=False)
    # Moving the point in the text is exact; dividing would round a second time.
    parts = pl.DataFrame({"digits": text.str.extract("([^eE]*)"), "exponent": exponent - 2})
    return confidence_column(
        parts.select(pl.format("{}e{}", "digits", "exponent").alias(raw.name)).to_series()
    )


def _digits(raw: pl.Series) -> pl.Series:
    """The digits 0 to 9, as ninths."""
    ninths = {word: float(value) for word, value in get_format("integer").values.items()}
    return _texts(raw).str.extract(_DIGIT).replace_strict(ninths, default=None, return_dtype=pl.Float64)


def _numbers(raw: pl.Series) -> pl.Series:
    """The decimals in a column as text, without percent signs; null where there is none."""
    text = _texts(raw).str.strip_chars(" ").str.strip_suffix("%").str.strip_chars_end(" ")
    return text.set(~text.str.contains(CONFIDENCE_TEXT), None)


def _texts(raw: pl.Series) -> pl.Series:
    known = raw.dtype == pl.String or raw.dtype.is_numeric()
    return raw.cast(pl.String) if known else pl.Series(raw.name, [None] * len(raw), dtype=pl.String)


SCALES: dict[str, Scale] = {
    PROBABILITY: Scale(PROBABILITY, "a number in [0, 1]", confidence_column, "probability"),
    PERCENT: Scale(PERCENT, "a percentage from 0 to 100", _percentages, None),
    DIGIT: Scale(DIGIT, "a digit from 0 to 9", _digits, "integer"),
}


def get_scale(name: str) -> Scale:
    """The scale `name`; an unknown one is refused with the nearest name."""
    if name not in SCALES:
        unknown_name("scale", name, list(SCALES))
    return SCALES[name]


@dataclass(slots=True)
class ScaleGuess:
    """On which other scale the numbers may be of a column that was read on one scale.

    Attributes
    ----------
    read, largest : how many are on the scale, and the largest of them as a number in [0, 1].
    above : how many are above 1 and at most 100.
    """

    read: int = 0
    largest: float = 0.0
    above: int = 0
    _beyond: bool = False
    _signed: bool = False
    _whole: bool = True

    def add(self, raw: pl.Series, read: pl.Series) -> None:
        """Take in the cells of a column, and what they were read as."""
        self.read += len(read) - read.null_count()
        self.largest = max(self.largest, cast(float, read.max() or 0.0))
        self._whole = self._whole and bool(((read == 0) | (read == 1)).all())
        unread = raw.filter(read.is_null() & raw.is_not_null())
        if unread.is_empty():
            return
        text = _numbers(unread)
        numbers = text.cast(pl.Float64).drop_nulls().drop_nans()
        self._beyond |= bool(((numbers < 0) | (numbers > HUNDRED)).any())
        self._signed |= bool(_texts(unread).filter(text.is_not_null()).str.contains("%", literal=True).any())
        self._whole &= bool(((numbers <= LARGEST_DIGIT) & (numbers.floor() == numbers)).all())
        self.above += int((numbers.is_between(1, HUNDRED)).sum())

    @property
    def scale(self) -> str | None:
        """The scale that the numbers look like, if it is another: most of them are above 1, and none above 100."""
        if self._beyond or self.above <= self.read:
            return None
        return DIGIT if self._whole and not self._signed else PERCENT
