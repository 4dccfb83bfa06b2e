"""Proposition 1: how much of RL's gradient reaches each confidence value.

Let π_i be the probability of stating c_i, and u_i = −E[(c_i − Z)²] its expected reward. The gradient of the expected
reward J with respect to the value's logit is π_i(u_i − J), at most π_i·Δ. If one value has probability 1 − ε, the sizes
of all gradients sum to at most 2εΔ. A value that is rarely stated hardly learns.

A file holds samples and not probabilities, so the context of the proposition is an assumption here. π is always the
distribution of the whole file: the few responses to one question cannot estimate the probabilities of a hundred values,
and a concentrated prior states much the same for every question. The chance of being right is the question's success rate
if questions have several responses, so that easy and hard ones do not cancel out; otherwise it is the file's accuracy.
`rl.prior_gradient` measures the same from a model's own probabilities, response by response.
"""

from dataclasses import dataclass

import numpy as np

from calibsft.metrics.table import ConfidenceTable, FloatArray
from calibsft.prior.concentration import BANDS, band_of
from calibsft.responses.formats import FORMATS

# With 64 groups of 8 responses per step, a rarer value is sampled less than once in two steps on average.
RARE = 0.001
# Decimals to which stated values are compared with a format's: ninths are rarely written out in full.
DIGITS = 6


@dataclass(frozen=True, slots=True)
class ValueGradient:
    """RL's gradient for one stated value, as means over the contexts.

    Attributes
    ----------
    confidence, probability : the value and its share π of the responses.
    reward : u, the expected reward −(c − Z)², in [−1, 0].
    gradient : π(u − J): positive if RL would make the value likelier.
    size : the mean of |π(u − J)|, in which opposite signs do not cancel.
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
    context : "question" if each question's own success rate is used, else "everything".
    contexts : the number of questions, 1 for "everything".
    format : the confidence format to which all stated values belong, None for none.
    format_values : the number of its values; without a format, of the stated values.
    format_bands : the number of bands [0, 0.1), … [0.9, 1] with values of the format; without a format, 10.
    values : every stated value, ascending.
    epsilon : 1 less the share of the most frequent value.
    spread : Δ, the largest less the smallest expected reward of the format's values.
    norm, norm_bound : ‖∇J‖₁ and 2εΔ, which it never exceeds.
    rare : the number of the format's values that are stated less than once in a thousand responses.
    rare_share : the share of the norm that these have together; None if the norm is 0.
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
    return -(success * (1 - success) + (values - success) ** 2)


def logit_gradient(probability: FloatArray, reward: FloatArray) -> FloatArray:
    """π_i(u_i − J) with J = Σ π_i u_i: the gradient of the expected reward with respect to the logits.

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
    success : success rate of every question, each one context; None takes the accuracy of all responses.
    """
    rates = np.array([table.k.sum() / table.responses]) if success is None else success
    name, values = format_of(table.values)
    probability = table.n / table.responses
    reward, gradient, size, spread = _mean_over_contexts(table.values, probability, values, rates)
    norm, epsilon = float(size.sum()), float(1 - probability.max())
    columns = [table.values, probability, reward, gradient, size, probability * spread]
    rare = probability < RARE
    return Gradient(
        context="everything" if success is None else "question",
        contexts=len(rates),
        format=name,
        format_values=len(values),
        format_bands=len(np.unique(band_of(values))) if name else BANDS,
        values=tuple(ValueGradient(*numbers) for numbers in np.stack(columns, axis=1).tolist()),
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
    """Reward, gradient and its size by stated value, and the spread of rewards, as means over the contexts."""
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
    """The confidence format to which all stated values belong, and its values; else None and the stated values.

    The values of the three words are two-decimal numbers too. They count as words only if two or more of them occur and
    nothing else does. 0 and 1 alone count as two-decimal numbers, not as the digits 0 and 9.
    """
    given = np.round(stated, DIGITS)
    for name in (*(("linguistic",) if len(stated) > 1 else ()), "probability", "integer"):
        chosen = FORMATS[name]
        values = np.array([float(chosen.value_of(word)) for word in chosen.words])
        if np.isin(given, np.round(values, DIGITS)).all():
            return name, values
    return None, stated
