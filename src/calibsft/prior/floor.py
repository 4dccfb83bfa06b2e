"""Proposition 2: how much Brier score confidences far from a question's success rate cost at least.

Let p be the chance of being right and m_δ the probability of a confidence less than δ away from p. Then the Brier score
exceeds p(1 − p) by at least δ²(1 − m_δ). Even for the value of a group of G that is nearest to p, the expected squared
distance to p is at least δ²(1 − m_δ)^G. Here the context is the question, and p is its success rate q. The proposition
holds if confidence depends on the question alone. A model that tells its right from its wrong answers to one question may
beat the floor, so `excess` is given too.

q is estimated from n responses, so every squared distance to it is too large by q(1 − q)/(n − 1) on average. This noise
is subtracted from the means over questions. They stay lower bounds: a floor is at most the mean squared distance, and the
best of a group is at least as near to q as the value that is nearest to p.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

# With fewer responses a question's success rate is too coarse: with 8 it is a multiple of 1/8, known to ±0.18.
RELIABLE_RESPONSES = 8
# A confidence this far off costs 0.01 of Brier score. Of ten evenly spread values, one is always nearer than this.
NEAR = 0.1
# The most frequent values that cover this percentage of the responses count as stated; rarer ones do not.
COVERED = 99
# Distances between decimals are compared as decimals: 0.6 is not within 0.1 of 0.5.
DIGITS = 12

Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True)
class Lower:
    """A lower bound as computed, and less the noise of the success rates (at least 0)."""

    plain: float
    less_noise: float


@dataclass(frozen=True, slots=True)
class Floor:
    """Proposition 2 on questions with several responses; each question has the same weight.

    Attributes
    ----------
    questions, left_out : questions with two responses or more, and those with one, which are left out.
    responses : mean number of responses per question.
    reliable : whether the typical (median) question has at least 8 responses.
    noise : mean of q(1 − q)/(n − 1), which the sampling of q adds to a squared distance.
    excess : Brier score less an unbiased estimate of p(1 − p); negative if confidence depends on more than the question.
    distance : mean of (c − q)².
    floor : mean of the largest δ²(1 − m_δ).
    support_floor : mean squared distance from q to the nearest of the values that make up 99 % of all responses.
    group_size : G.
    best_of_group : mean of the largest δ²(1 − m_δ)^G.
    reach : chance that G responses to a question contain a value less than 0.1 from q.
    """

    questions: int
    left_out: int
    responses: float
    reliable: bool
    noise: float
    excess: float
    distance: Lower
    floor: Lower
    support_floor: Lower
    group_size: int
    best_of_group: Lower
    reach: float


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Responses sorted by question; `start` and `n` are the first row and the number of rows of each question."""

    confidence: FloatArray
    correct: FloatArray
    start: IntArray
    n: IntArray
    left_out: int

    @classmethod
    def from_rows(
        cls, confidence: FloatArray, correct: NDArray[np.bool_], question: IntArray
    ) -> "Groups | None":
        """The questions with two or more responses, None if there are none."""
        counts = np.unique_counts(question).counts
        several = counts > 1
        if not several.any():
            return None
        order = np.argsort(question, kind="stable")[np.repeat(several, counts)]
        n, right = counts[several], correct[order].astype(np.float64)
        return cls(confidence[order], right, np.cumsum(n) - n, n, int((~several).sum()))

    @property
    def success(self) -> FloatArray:
        """Success rate of every question."""
        return self.mean(self.correct)

    def mean(self, values: FloatArray) -> FloatArray:
        """The mean of `values`, one per response, over every question."""
        return np.add.reduceat(values, self.start) / self.n

    def ascending(self, values: FloatArray) -> FloatArray:
        """`values`, one per response, sorted within every question."""
        return values[np.lexsort((values, self.repeat(np.arange(len(self.n)))))]

    def repeat(self, per_question: NDArray[Number]) -> NDArray[Number]:
        """One value per question, repeated for each of its responses."""
        return np.repeat(per_question, self.n)


def brier_floor(groups: Groups, table: ConfidenceTable, group_size: int) -> Floor:
    """Proposition 2 for the responses in `groups`; `table` has all responses and so all stated values."""
    success = groups.success
    noise = float((success * (1 - success) / (groups.n - 1)).mean())
    distance = groups.ascending(np.abs(groups.confidence - groups.repeat(success)))
    far = np.add.reduceat((np.round(distance, DIGITS) >= NEAR).astype(np.int64), groups.start)
    brier = groups.mean((groups.confidence - groups.correct) ** 2)

    def lower(per_question: FloatArray) -> Lower:
        plain = float(per_question.mean())
        return Lower(plain, max(0.0, plain - noise))

    return Floor(
        questions=len(groups.n),
        left_out=groups.left_out,
        responses=float(groups.n.mean()),
        reliable=bool(np.median(groups.n) >= RELIABLE_RESPONSES),
        noise=noise,
        excess=float((brier - success * (1 - success) * groups.n / (groups.n - 1)).mean()),
        distance=lower(groups.mean(distance**2)),
        floor=lower(largest_floor(distance, groups, 1)),
        support_floor=lower(_distance_to(frequent_values(table), success) ** 2),
        group_size=group_size,
        best_of_group=lower(largest_floor(distance, groups, group_size)),
        reach=float((1 - all_outside(far, groups.n, group_size)).mean()),
    )


def largest_floor(nearest_first: FloatArray, groups: Groups, draws: int) -> FloatArray:
    """Per question the largest δ²(1 − m_δ)^draws over all δ > 0, from its distances in ascending order.

    Between two occurring distances m_δ is constant and δ² grows, so the maximum is at an occurring distance.
    """
    place = np.arange(len(nearest_first)) - groups.repeat(groups.start)
    # Of equal distances the first has the right count and the others a lower one, so the maximum is exact.
    chance = all_outside(groups.repeat(groups.n) - place, groups.repeat(groups.n), draws)
    return np.maximum.reduceat(nearest_first**2 * chance, groups.start)


def all_outside(outside: IntArray, n: IntArray, draws: int) -> FloatArray:
    """Chance that `draws` of n responses are all among the `outside` that are far away: an estimate of (1 − m)^draws.

    Draws without replacement, which is unbiased; (outside/n)^draws would be too large, above all if few are far away. Draws
    with replacement if a question has fewer responses than draws.
    """
    chance = np.ones(len(n))
    for drawn in range(min(draws, int(n.max()))):
        chance *= np.maximum(outside - drawn, 0) / np.maximum(n - drawn, 1)
    return np.where(n >= draws, chance, (outside / n) ** draws)


def frequent_values(table: ConfidenceTable) -> FloatArray:
    """The fewest values that make up 99 % of the responses, ascending."""
    order = np.lexsort((table.values, -table.n))
    needed = int(np.searchsorted(100 * np.cumsum(table.n[order]), COVERED * table.responses)) + 1
    return np.sort(table.values[order[:needed]])


def _distance_to(values: FloatArray, points: FloatArray) -> FloatArray:
    """The distance from every point to the nearest of `values`, which are ascending."""
    above = np.clip(np.searchsorted(values, points), 0, len(values) - 1)
    below = np.maximum(above - 1, 0)
    return np.minimum(np.abs(values[above] - points), np.abs(values[below] - points))
