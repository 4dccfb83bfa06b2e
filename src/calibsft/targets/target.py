"""What a target is: one way to label responses with the confidence that they should have stated.

A target labels; it neither balances nor writes text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import polars as pl

from calibsft.responses.formats import Format
from calibsft.targets.settings import TargetSettings

S = TypeVar("S", bound=TargetSettings)


def exact_value(label: Fraction, confidence_format: Format) -> Fraction:
    """Every label is its own stratum, so the balanced set is the same in all formats."""
    return label


def on_grid(label: Fraction, confidence_format: Format) -> Fraction:
    """Labels that the format writes the same are one stratum; continuous labels would give groups of one."""
    return confidence_format.value_of(confidence_format.render(label))


@dataclass(frozen=True, slots=True)
class Target(Generic[S]):
    """One way to say what a response's confidence should have been.

    Attributes
    ----------
    label
        Takes well-formed responses and the target's settings. Returns exact labels in [0, 1], as `once_per` makes them: one
        for each row, null for a response that is not trained on. A row has the keys of the response, `correct`, the stated
        `confidence`, the number `k` of correct ones among the `n` responses to its question, and the evidence.
    settings
        The class of its settings: `TargetSettings`, or a subclass with more keys.
    evidence
        Names of the evidence that `label` needs.
    strata
        Takes a label and the format of the training set. Returns the stratum, the group that balancing counts it in.
    imitates
        Whether a model is to imitate the responses as they are, every token of right and wrong ones. Such a target needs no
        success rates.
    """

    name: str
    description: str
    label: Callable[[pl.DataFrame, S], pl.DataFrame]
    settings: type[S]
    evidence: tuple[str, ...] = ()
    strata: Callable[[Fraction, Format], Fraction] = exact_value
    imitates: bool = False
