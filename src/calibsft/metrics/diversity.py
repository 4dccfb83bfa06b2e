"""How many different confidences a model uses, and how evenly.

Functions of a `ConfidenceTable` that ignore correctness. None has a good end, on purpose: a concentrated prior leaves RL
nothing to learn from, but a broad one is not better by itself (shuffled targets are broad too).
"""

from math import inf

import numpy as np

from calibsft.metrics.metric import HEADLINE, Metric, one_decimal, percent
from calibsft.metrics.table import ConfidenceTable

EXTREME_LOW = 0.01
EXTREME_HIGH = 0.98


def support(table: ConfidenceTable) -> int:
    """Number of distinct confidences, at least 1. Grows with the number of responses."""
    return len(table.values)


def top1(table: ConfidenceTable) -> float:
    """Share of the most frequent confidence, in (0, 1]."""
    return _top(table, 1)


def top3(table: ConfidenceTable) -> float:
    """Share of the three most frequent confidences together, in (0, 1]; 1 if there are three or fewer."""
    return _top(table, 3)


def effective_support(table: ConfidenceTable) -> float:
    """exp(H) with H the entropy in nats of the stated values: between 1 (constant) and `support` (uniform)."""
    share = table.n / table.responses
    return float(np.exp(-(share * np.log(share)).sum()))


def extreme_share(table: ConfidenceTable) -> float:
    """Share of responses with confidence <= 0.01 or >= 0.98, in [0, 1]."""
    extreme = (table.values <= EXTREME_LOW) | (table.values >= EXTREME_HIGH)
    return int(table.n[extreme].sum()) / table.responses


def share_below_half(table: ConfidenceTable) -> float:
    """Share of responses with confidence < 0.5, in [0, 1]: how often the model doubts itself at all."""
    return int(table.n[table.values < 0.5].sum()) / table.responses


def _top(table: ConfidenceTable, values: int) -> float:
    return int(np.sort(table.n)[-values:].sum()) / table.responses


# `SUPPORT`, `TOP1` and `TOP3` have no interval, because none would cover the truth as often as it says. A draw never has a
# value that was not stated. If many values are about equally frequent, the largest shares of a draw are too large.
SUPPORT = Metric("support", "Values", write=one_decimal, of=support, bounds=(1.0, inf), interval=None)
TOP1 = Metric("top1", "Top-1", write=percent, of=top1, views=frozenset({"terminal"}), interval=None)
TOP3 = Metric("top3", "Top-3", write=percent, of=top3, interval=None)
EFFECTIVE_SUPPORT = Metric(
    "effective_support",
    "Effective support",
    write=one_decimal,
    short="eff.supp.",
    of=effective_support,
    views=HEADLINE,
    bounds=(1.0, inf),
    interval="log",  # draws of its logarithm, the entropy, are about symmetric
)
EXTREME_SHARE = Metric("extreme_share", "Extreme", write=percent, of=extreme_share)
