"""What an estimator is: a name, and a function from an evaluation to rows of confidence and correctness.

Does not know any estimator by name: they are listed in `calibsft.estimators.ESTIMATORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from calibsft.responses.formats import Format
from calibsft.responses.prompts import Prompting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from calibsft.engines.engine import NextTokens


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation and its model.

    Attributes
    ----------
    folder : the evaluation's folder; its `rollouts` hold the questions, and the responses with their tokens.
    prompting, label : how the questions were asked, and the evaluation's name in progress lines.
    model : what gives token probabilities: the loaded model, or a served copy of it.
    """

    folder: Path
    prompting: Prompting
    label: str
    tokenizer: "PreTrainedTokenizerBase"
    model: "NextTokens"

    @property
    def format(self) -> Format:
        """How the responses write confidence."""
        return self.prompting.format

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    @property
    def estimates(self) -> Path:
        """The folder of the estimators' results."""
        return self.folder / "estimators"


@dataclass(frozen=True, slots=True)
class Estimator:
    """One source of confidence.

    Attributes
    ----------
    estimate : takes the evaluation and its rows, one per response. Returns a table of dataset, split, question_id,
        `confidence` in [0, 1] or null if there is none, and `correct`, null if unknown.
    check : refuses an unsuitable evaluation before anything is sampled.
    formats : the confidence formats that it is defined for; empty for all.
    asks_model : whether it needs token probabilities, which a served copy of the model can give.
    """

    name: str
    estimate: Callable[[Evaluated, pl.DataFrame], pl.DataFrame]
    check: Callable[[Evaluated], None] = lambda evaluated: None
    formats: tuple[str, ...] = ()
    asks_model: bool = False
