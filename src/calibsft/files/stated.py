"""What the text of a logged response says, as columns: the response, its confidence and its form.

The parser is that of all other commands. Does not grade.
"""

from typing import Any

import polars as pl

from calibsft.files.dialect import Dialect
from calibsft.responses.parse import parse, stated_text

NO_FORMAT = "probability"


def stated_columns(
    record: dict[str, Any], text: str, dialect: Dialect, finished: bool = True
) -> dict[str, Any]:
    """The columns of a response; a confidence that `record` has beside it counts instead of the one in the text."""
    found = {"response": text}
    if not dialect.parsed or "confidence" in record or dialect.theirs("confidence") != "confidence":
        return found
    parsed = parse(text, dialect.format or NO_FORMAT, finished=finished)
    stated = stated_text(text)
    # Percentages are of no format of ours: their scale reads the text.
    if dialect.format is not None and parsed.value is None and _is_read(stated, dialect):
        stated = None
    return {**found, "confidence": stated, "well_formed": parsed.ok, "reason": parsed.reason.value}


def _is_read(stated: str | None, dialect: Dialect) -> bool:
    """Whether this text would be read in a cell: 1e-3 is read in cells, but not in responses."""
    return stated is not None and dialect.confidences(pl.Series("confidence", [stated])).null_count() == 0
