"""Token probability: the expected confidence from the probabilities of the digits after `<confidence>0.`.

The probabilities of the ten digits are normalised to sum to 1, and each digit stands for the middle of its tenth:
c = Σ P(d)(d/10 + 0.05), which lies between 0.05 and 0.95. The tokens before the digit are the sampled ones; if the
response states 1.00, `0.` replaces its `1.`. A response that is never confident (`responses.actionable`)
gets no confidence here. Does not sample.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.artifacts import QUESTIONS, shards, write_parquet
from calibsft.errors import InputError
from calibsft.estimators.estimator import Estimator, Evaluated
from calibsft.progress import Progress
from calibsft.responses.actionable import actionable
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse, replace_confidence
from calibsft.responses.spans import TokenOffsets, decode
from calibsft.schema import KEYS, QUESTION_KEYS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DIGITS = tuple("0123456789")
MIDDLES = (2 * np.arange(10) + 1) / 20
# Replaces the stated value. Its decimals do not matter: only the tokens before them are used.
ZERO = "0.00"
# The shortest response; without spaces, which not every tokenizer has.
SHORTEST = "<think></think><answer>1</answer><confidence>{}</confidence>"
DIGIT_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "dataset": pl.String,
    "question_id": pl.String,
    "sample": pl.Int32,
    "confidence": pl.Float64,
    "probabilities": pl.List(pl.Float64),
}


def expected_value(logprobs_N_D: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidences (N,) and digit probabilities (N, 10); NaN if no digit has any probability.

    Parameters
    ----------
    logprobs_N_D : log-probabilities of the digits 0 to 9 among all tokens; minus infinity is a probability of 0.
    """
    logprobs_N_D = logprobs_N_D.astype(np.float64)
    highest_N = logprobs_N_D.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # minus infinity less itself, if no digit has any probability
        weights_N_D = np.exp(logprobs_N_D - highest_N)
    probabilities_N_D = weights_N_D / weights_N_D.sum(axis=1, keepdims=True)
    return (probabilities_N_D @ MIDDLES).clip(MIDDLES[0], MIDDLES[-1]), probabilities_N_D


class DigitContexts:
    """Finds the tokens before a confidence's first decimal, for one tokenizer.

    Raises `InputError` if the tokenizer does not write that digit as a separate token.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", confidence_format: Format) -> None:
        from calibsft.sft.encode import Encoder

        self._tokenizer, self._format = tokenizer, confidence_format
        self._encoder = Encoder(tokenizer, confidence_format)
        self._pieces: dict[int, str] = {}
        values = [word for word in confidence_format.words if word.startswith("0.")]
        found = {(value[2], *self._split(SHORTEST.format(value), None)) for value in values}
        self.ids = tuple(id for _, _, id in sorted(found))
        # The tokens before the decimals must always be the same, and each first decimal must have one token of its own.
        if len({before for _, before, _ in found}) > 1 or len(found) > len(set(self.ids)):
            raise self._no_digits()

    def context(self, prompt: tuple[int, ...], text: str, sampled: Sequence[int] | None) -> tuple[int, ...]:
        """The tokens of prompt and response up to the first decimal of its confidence.

        Parameters
        ----------
        text : a response with a confidence to act on.
        sampled : the sampled ids, None to encode the text.
        """
        replaced = replace_confidence(text, parse(text, self._format), ZERO)
        before, digit = self._split(replaced, sampled)
        if digit != self.ids[0]:
            raise self._no_digits()
        return prompt + before

    def _split(self, text: str, sampled: Sequence[int] | None) -> tuple[tuple[int, ...], int]:
        """The ids of a response before the first decimal of its confidence, and the id of that decimal."""
        span = parse(text, self._format).value_span
        assert span is not None
        *ids, _ = self._encoder.encode((), text, sampled, correct=False).response
        at = TokenOffsets(self._tokenizer, ids, self._pieces).token_at(span[0] + 2)
        digit = text[span[0] + 2]
        if (
            decode(self._tokenizer, ids[:at]) != text[: span[0] + 2]
            or decode(self._tokenizer, [ids[at]]) != digit
        ):
            raise self._no_digits()
        return tuple(ids[:at]), ids[at]

    def _no_digits(self) -> InputError:
        return InputError(
            "token-probability needs a tokenizer that writes each digit of a confidence as a token of its own, and that"
            " of this model joins several characters; use the estimators verbalized and self-consistency"
        )


def check(evaluated: Evaluated) -> None:
    """Refuse a tokenizer that joins digits, and a server that gives no probabilities, before anything is sampled."""
    contexts = DigitContexts(evaluated.tokenizer, evaluated.format)
    asked = _prompts(evaluated)("1+1=")
    evaluated.model.next_logprobs([contexts.context(asked, SHORTEST.format(ZERO), None)], contexts.ids)


def estimate(evaluated: Evaluated, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the evaluation with this confidence instead of the stated one."""
    folder, found = evaluated.estimates / "digits", shards(evaluated.rollouts)
    wanted = rows.filter(actionable(rows).is_not_null()).select(KEYS)
    missing = [shard for shard in found if not (folder / shard.name).is_file()]
    done = len(wanted) - sum(
        len(pl.read_parquet(shard, columns=list(KEYS)).join(wanted, on=KEYS)) for shard in missing
    )
    contexts = DigitContexts(evaluated.tokenizer, evaluated.format)
    with Progress(f"{evaluated.label}, token probability", len(wanted), "responses", done) as progress:
        for shard in missing:
            responses = pl.read_parquet(shard).join(wanted, on=KEYS, how="semi", maintain_order="left")
            write_parquet(folder / shard.name, _digits(evaluated, contexts, responses, progress.advance))
    digits = pl.concat([pl.read_parquet(folder / shard.name) for shard in found])
    kept = rows.select("split", *KEYS, "correct")
    return kept.join(digits.drop("probabilities"), on=KEYS, how="left", maintain_order="left")


def _digits(
    evaluated: Evaluated,
    contexts: DigitContexts,
    responses: pl.DataFrame,
    on_done: Callable[[int], None],
) -> pl.DataFrame:
    """Confidence and digit probabilities of some responses."""
    questions = pl.read_parquet(evaluated.rollouts / QUESTIONS, columns=[*QUESTION_KEYS, "question"])
    asked = responses.join(questions, on=QUESTION_KEYS, how="left", maintain_order="left")
    prompt = _prompts(evaluated)
    texts = asked.select("question", "response", "token_ids").iter_rows()
    before = [contexts.context(prompt(question), text, ids) for question, text, ids in texts]
    confidence, probabilities = expected_value(
        evaluated.model.next_logprobs(before, contexts.ids, on_done).reshape(-1, len(DIGITS))
    )
    columns = {name: asked[name] for name in KEYS} | {
        "confidence": pl.Series(confidence).fill_nan(None),
        "probabilities": [None if np.isnan(p).any() else p for p in probabilities.tolist()],
    }
    return pl.DataFrame(columns, schema=DIGIT_SCHEMA)


def _prompts(evaluated: Evaluated) -> Callable[[str], tuple[int, ...]]:
    """A cached function from a question to its prompt."""
    return cache(lambda question: evaluated.prompting.ids(evaluated.tokenizer, question))


TOKEN_PROBABILITY = Estimator(
    "token-probability", estimate, check, formats=("probability", "probability-0.05"), asks_model=True
)
