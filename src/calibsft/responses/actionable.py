"""The rule of `Parsed.actionable` for tables: which stated confidences a decision may act on.

Calibration, figures and estimators apply it to verdicts and users' files; the gateway parses the response. Does not read
files.
"""

import polars as pl

from calibsft.responses.parse import Reason

# Malformed only in how the confidence is written.
ONLY_THE_WRITING = [reason.value for reason in Reason if reason.layout_holds and reason is not Reason.OK]


def actionable(rows: pl.DataFrame) -> pl.Series:
    """The confidences of `rows`, null for a response that is never confident.

    `rows` have `confidence`, null if it is unreadable, and optionally `well_formed` and `reason`, the parser's code. A response
    without `well_formed` counts as well formed. Without `reason`, a response that is not well formed is never confident.
    """
    if "well_formed" not in rows.columns:
        return rows["confidence"]
    holds = rows["well_formed"].fill_null(True)
    if "reason" in rows.columns:
        holds |= rows["reason"].is_in(ONLY_THE_WRITING).fill_null(False)
    return rows["confidence"].set(~holds, None)
