"""The rule of `Parsed.actionable` for tables: which stated confidences a decision may act on.

Calibration, figures and estimators use it on verdicts and users' files; the gateway has the response itself. Does not
read files.
"""

import polars as pl

from calibsft.responses.parse import Reason

# Malformed only in how the confidence is written.
ONLY_THE_WRITING = [reason.value for reason in Reason if reason.layout_holds and reason is not Reason.OK]


def actionable(rows: pl.DataFrame) -> pl.Series:
    """The confidences of `rows`, null where the response is never confident.

    Parameters
    ----------
    rows : `confidence`, null where it is unreadable; optionally `well_formed` and `reason`, the parser's code. Without
        `well_formed`, or where it is null, nothing is held against a response; without `reason`, all that is not well
        formed is never confident.
    """
    if "well_formed" not in rows.columns:
        return rows["confidence"]
    holds = rows["well_formed"].fill_null(True)
    if "reason" in rows.columns:
        holds |= rows["reason"].is_in(ONLY_THE_WRITING).fill_null(False)
    return rows["confidence"].set(~holds, None)
