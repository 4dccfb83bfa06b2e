"""Proposition 1: how much of RL's gradient reaches each confidence value.

With π_i the probability of stating c_i and u_i = −E[(c_i − Z)²] its expected reward, the gradient of the expected
reward J with respect to the value's logit is π_i(u_i − J), at most π_i·Δ; and where one value has probability
1 − ε, all of them together have at most 2εΔ. What is hardly ever stated hardly learns.

The context of the proposition is an assumption here, because a file holds samples and not probabilities. π is
always the distribution of the whole file: a question's few responses cannot estimate the probability of a hundred
values, and a concentrated prior states much the same whatever is asked. The chance of being right is that of each question
where questions have several responses, so that easy and hard ones do not cancel out, and the accuracy of the
file otherwise. `rl.prior_gradient` measures the same from a model's own probabilities, response by response.
"""

from dataclasses import dataclass

import numpy as np

from calibsft.metrics.table import ConfidenceTable, FloatArray
from calibsft.prior.concentration import BANDS, band_of
from calibsft.responses.formats import FORMATS

# A step of 64 groups of 8 responses states such a value once in two steps at best.
RARE = 0.001
# Decimals to which a stated value and a format's are the same: ninths are rarely written out in full.
DIGITS = 6


@dataclass(frozen=True, slots=True)
class ValueGradient:
    """What RL's gradient does to one stated value, as means over the contexts.

    Attributes
    ----------
    confidence, probability : the value and its share π of the responses.
    reward : u, the expected reward −(c − Z)², in [−1, 0].
    gradient : π(u − J): positive where RL would make the value likelier.
    size : the mean of |π(u − J)|, which opposite contexts do not cancel.
    bound : πΔ, which `size` never exceeds.
    """

    confidence: float
    probability: float
    reward: float
    gradient: float
    size: float
    bound: float


@dataclass(frozen=True, slots=True)
class Gradient:
    """Proposition 1 on a set of responses.

    Attributes
    ----------
    context : "question" where each question's own success rate is used, else "everything".
    contexts : how many questions, 1 for everything.
    format : the confidence format to which all stated values belong, None for none.
    format_values : how many values it has; without a format, the values that are stated.
    format_bands : how many of the ten bands [0, 0.1), … [0.9, 1] it has values in; without a format, all ten.
    values : every stated value, ascending.
    epsilon : 1 less the share of the most frequent value.
    spread : Δ, the largest less the smallest expected reward of the format's values.
    norm, norm_bound : ‖∇J‖₁ and 2εΔ, which it never exceeds.
    rare : how many of the format's values are stated less than once in a thousand responses, or never.
    rare_share : the part of the norm that these get together; None where the norm is 0.
    """

    context: str
    contexts: int
    format: str | None
    format_values: int
    format_bands: int
    values: tuple[ValueGradient, ...]
    epsilon: float
    spread: float
    norm: float
    norm_bound: float
    rare: int
    rare_share: float | None


def expected_reward(values: FloatArray, success: float) -> FloatArray:
    """u_i = −E[(c_i − Z)²] for Z that is 1 with probability `success`."""
    reward: FloatArray = -(success * (1 - success) + (values - success) ** 2)
    return reward


def logit_gradient(probability: FloatArray, reward: FloatArray) -> FloatArray:
    """π_i(u_i − J) with J = Σ π_i u_i: the gradient of the expected reward by the logits of a softmax.

    Values are along the last axis.
    """
    expected = (probability * reward).sum(axis=-1, keepdims=True)
    gradient: FloatArray = probability * (reward - expected)
    return gradient


def reward_gradient(table: ConfidenceTable, success: FloatArray | None = None) -> Gradient:
    """Proposition 1 for the responses in `table`.

    Parameters
    ----------
    table : the counted responses; their distribution is the policy.
    success : success rate of every question, each a context of its own; None takes the accuracy of all.
    """
    rates = np.array([table.k.sum() / table.responses]) if success is None else success
    name, values = format_of(table.values)
    probability = table.n / table.responses
    reward, gradient, size, spread = _mean_over_contexts(table.values, probability, values, rates)
    norm, epsilon = float(size.sum()), float(1 - probability.max())
    rare = probability < RARE
    return Gradient(
        context="everything" if success is None else "question",
        contexts=len(rates),
        format=name,
        format_values=len(values),
        format_bands=len(np.unique(band_of(values))) if name else BANDS,
        values=tuple(
            ValueGradient(*numbers)
            for numbers in np.stack(
                [table.values, probability, reward, gradient, size, probability * spread], axis=1
            ).tolist()
        ),
        epsilon=epsilon,
        spread=spread,
        norm=norm,
        norm_bound=2 * epsilon * spread,
        rare=len(values) - int((~rare).sum()),
        rare_share=float(size[rare].sum()) / norm if norm else None,
    )


def _mean_over_contexts(
    stated: FloatArray, probability: FloatArray, values: FloatArray, rates: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Means over the contexts of reward, gradient and its size by stated value, and of the spread of rewards."""
    reward, gradient, size = (np.zeros_like(stated) for _ in range(3))
    spread = 0.0
    distinct, counts = np.unique(rates, return_counts=True)
    for rate, weight in zip(distinct.tolist(), (counts / len(rates)).tolist(), strict=True):
        rewards = expected_reward(stated, rate)
        here = logit_gradient(probability, rewards)
        reward += weight * rewards
        gradient += weight * here
        size += weight * np.abs(here)
        spread += weight * float(np.ptp(expected_reward(values, rate)))
    return reward, gradient, size, spread


def format_of(stated: FloatArray) -> tuple[str | None, FloatArray]:
    """The confidence format to which all stated values belong, and its values; else no name and the stated ones.

    The three labels are two-decimal numbers too, so they are taken for labels only where two or more occur and
    nothing else does; 0 and 1 alone are two-decimal numbers rather than the digits 0 and 9.
    """
    given = np.round(stated, DIGITS)
    for name in (*(("linguistic",) if len(stated) > 1 else ()), "probability", "integer"):
        chosen = FORMATS[name]
        values = np.array([float(chosen.value_of(word)) for word in chosen.words])
        if np.isin(given, np.round(values, DIGITS)).all():
            return name, values
    return None, stated
