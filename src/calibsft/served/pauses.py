"""Pauses before a request is repeated or a server asked again."""

from random import random


def growing_pause(first: float, longest: float, before: int) -> float:
    """Seconds to wait after `before` earlier pauses: each is about twice as long as the last, up to `longest`.

    Half of it is random, so that requests that failed together do not come back together.
    """
    return min(longest, first * 2.0**before) * (0.5 + random() / 2)
