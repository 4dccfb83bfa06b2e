"""A user's column of confidences: how it is read, and what is done about cells that hold none.

Reads numbers and their plain decimal text, not model responses.
"""

from pathlib import Path

import polars as pl

from calibsft.errors import unknown_name
from calibsft.metrics.table import decimals
from calibsft.progress import warn
from calibsft.tables import shown

MALFORMED_POLICIES = ("error", "counted", "drop")
# What becomes of rows without a readable confidence, for a warning.
COUNTED, NEVER_CONFIDENT = "count as 0", "count as never confident"
# [0-9], not \d: in polars' regular expressions \d also matches Arabic and other digits.
CONFIDENCE_TEXT = r"\A-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z"


def require_policy(malformed: str | None) -> None:
    """Refuse an unknown policy for confidences that cannot be read."""
    if malformed is not None and malformed not in MALFORMED_POLICIES:
        unknown_name("policy for malformed confidences", malformed, list(MALFORMED_POLICIES))


def warn_unread(path: Path, row: int, cell: object, rows: int, of: int, unread_are: str) -> None:
    """Say how many rows have no readable confidence, what they do, and how to change that."""
    warn(
        f"{path}: {rows:,} of {of:,} rows have no readable confidence (the first is row {row}: {shown(cell)}) and {unread_are};"
        " --malformed drop leaves them out, error refuses the file, and counted keeps them without a warning"
    )


def confidence_column(raw: pl.Series) -> pl.Series:
    """The column as the decimals that it means, null where it is not a number in [0, 1]."""
    if raw.dtype == pl.String:
        raw = raw.set(~raw.str.contains(CONFIDENCE_TEXT), None).cast(pl.Float64)
    elif not raw.dtype.is_numeric():
        return pl.Series(raw.name, [None] * len(raw), dtype=pl.Float64)
    values = raw if raw.dtype.is_float() else raw.cast(pl.Float64)
    unread = ~values.is_between(0, 1).fill_null(False)
    return pl.Series(raw.name, decimals(values.set(unread, 0).to_numpy())).set(unread, None)
