"""Pauses before a request is repeated or a server asked again."""

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random


def growing_pause(first: float, longest: float, before: int) -> float:
    """Seconds to wait after `before` earlier pauses: each is about twice as long as the last, up to `longest`.

    Half of it is random, so that requests that failed together do not come back together.
    """
    return min(longest, first * 2.0**before) * (0.5 + random() / 2)


def asked_pause(retry_after: str, longest: float) -> float:
    """The seconds that `Retry-After` asks for, as a number or a date, up to `longest`; else 0."""
    if retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after), longest)
    with suppress(ValueError, OverflowError):  # the latter for numbers beyond all dates
        date = parsedate_to_datetime(retry_after)
        left = date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)
        return min(max(left.total_seconds(), 0.0), longest)
    return 0.0
