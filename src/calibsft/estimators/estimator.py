"""What an estimator is: a name, and a function from an evaluation to rows of confidence and correctness.

Does not know any estimator by name: they are listed in `calibsft.estimators.ESTIMATORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from calibsft.responses.formats import Format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from calibsft.engines.engine import NextTokens


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation and its model.

    Attributes
    ----------
    folder
        The evaluation's folder; its `rollouts` hold the questions, and the responses with their tokens.
    format, label
        How the responses write confidence, and the evaluation's name in progress lines.
    model
        What gives token probabilities: the loaded model, or a served copy of it.
    """

    folder: Path
    format: Format
    label: str
    tokenizer: "PreTrainedTokenizerBase"
    model: "NextTokens"

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    @property
    def estimates(self) -> Path:
        """The folder of the estimators' results."""
        return self.folder / "estimators"


def _nothing_to_check(evaluated: Evaluated) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Estimator:
    """One source of confidence.

    Attributes
    ----------
    estimate
        Takes the evaluation and its rows, one per response. Returns a table of dataset, split, question_id, `confidence`
        in [0, 1] or null if there is none, and `correct`, null if unknown.
    check
        Refuses an unsuitable evaluation before anything is sampled.
    formats
        The confidence formats that it is defined for; empty for all.
    asks_model
        Whether it needs token probabilities, which a served copy of the model can give.
    """

    name: str
    estimate: Callable[[Evaluated, pl.DataFrame], pl.DataFrame]
    check: Callable[[Evaluated], None] = _nothing_to_check
    formats: tuple[str, ...] = ()
    asks_model: bool = False
