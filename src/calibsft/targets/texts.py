"""The text of the drawn responses, as rows of the training set; their confidence is replaced where a target says another one.

Texts are read part by part and written block by block, so memory depends neither on the pool nor on the training set.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.responses.formats import Format, messages
from calibsft.responses.parse import restate
from calibsft.schema import KEYS, LABEL, QUESTION_KEYS
from calibsft.table_schemas import TRAINING_ROWS
from calibsft.targets.draws import Drawn
from calibsft.targets.pool import Pool
from calibsft.targets.stored_texts import StoredTexts

# Parts that are decoded in parallel, and rows that are rewritten at a time.
PARTS_AT_ONCE, ROWS_AT_ONCE = 2, 500


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """What a training set is made of.

    Attributes
    ----------
    labelled : responses of the pool with their labels.
    drawn : which of these are trained on.
    format : how the training set writes confidences.
    source : the name of the pool in errors.
    """

    pool: Pool
    labelled: pl.DataFrame
    drawn: Drawn
    format: Format
    source: str


def store_texts(training: TrainingSet, stored: StoredTexts, rewritten: bool = True) -> None:
    """Store the text of every drawn response under its number in `labelled`, once; `rewritten` to state its label."""
    wanted = _wanted(training, np.unique(training.drawn.rows))
    places, start = wanted["place"].to_numpy(), 0
    for part in _read(training.pool):
        first, end = np.searchsorted(places, (start, start + len(part)))
        _store(part, start, wanted[first:end], stored, rewritten)
        start += len(part)
        del part  # before the next one is read


def _store(
    part: pl.DataFrame, start: int, wanted: pl.DataFrame, stored: StoredTexts, rewritten: bool
) -> None:
    """Store the wanted rows of the part that begins at the place `start`; `rewritten` to state their labels."""
    for found in wanted.iter_slices(ROWS_AT_ONCE):
        rows = part[found["place"].to_numpy() - start]
        pairs = zip(rows["response"], found["value"], strict=True)
        texts = [restate(text, value) if rewritten else text for text, value in pairs]
        stored.add(found["number"].to_numpy(), texts, rows["token_ids"])


def _wanted(training: TrainingSet, numbers: NDArray[np.int64]) -> pl.DataFrame:
    """The rows `numbers` of `labelled` in the order of the pool: place in the pool, number, and confidence to state."""
    labelled = training.labelled
    numbered = labelled.select(*KEYS, *LABEL).with_columns(number=pl.int_range(pl.len()))[numbers]
    labels = numbered.select(LABEL).unique()
    written = [training.format.render(Fraction(*label)) for label in labels.iter_rows()]
    stated = numbered.lazy().join(labels.with_columns(value=pl.Series(written)).lazy(), on=LABEL)
    coded = (pl.col(key).cast(labelled.schema[key]) for key in KEYS)
    keys = training.pool.keys.select(*coded).with_row_index("place")
    # In the order of the left table: then only the right one, which is smaller, is held in memory.
    found = keys.join(stated, on=KEYS, maintain_order="left").select("place", "number", "value")
    wanted = found.collect(engine="streaming")
    _refuse_lost(len(numbered) - wanted["number"].n_unique(), training.source)
    return wanted


def _read(pool: Pool) -> Iterator[pl.DataFrame]:
    """The texts and token ids of the pool, part by part."""
    with ThreadPoolExecutor(PARTS_AT_ONCE) as threads:
        for start in range(0, len(pool.parts), PARTS_AT_ONCE):
            some = pool.parts[start : start + PARTS_AT_ONCE]
            yield from threads.map(lambda part: part(("response", "token_ids")), some)


def _refuse_lost(responses: int, source: str) -> None:
    if responses:
        raise InputError(
            f"{source}: {responses} graded responses are not among the rollouts; give the verdicts on these rollouts"
        )


class TrainingRows:
    """The rows of the training set in blocks: the drawn responses with their stored texts, in the order of the draws."""

    def __init__(self, training: TrainingSet, stored: StoredTexts) -> None:
        self._labelled, self._stored = training.labelled, stored
        self._rows, self._draws = training.drawn.rows, training.drawn.numbers
        keys = (pl.col(key).cast(self._labelled.schema[key]) for key in QUESTION_KEYS)
        asked = training.pool.questions.select(*keys, "question").collect()
        turns = [messages(question, training.format) for question in asked["question"]]
        self._asked = asked.with_columns(prompt=pl.Series(turns, dtype=TRAINING_ROWS["prompt"]))
        lost = self._labelled.join(self._asked, on=QUESTION_KEYS, how="anti")
        _refuse_lost(len(lost), training.source)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for place, texts in self._stored.blocks(self._rows):
            yield self._block(self._labelled[self._rows[place]], self._draws[place], texts)

    def _block(self, rows: pl.DataFrame, draws: NDArray[np.int64], texts: pl.DataFrame) -> pl.DataFrame:
        numerator, denominator = (pl.col(name) for name in LABEL)
        block = rows.hstack(texts).with_columns(
            draw=pl.Series(draws),
            target=numerator / denominator,
            target_numerator=numerator,
            target_denominator=denominator,
            q=pl.col("k") / pl.col("n"),
            successes="k",
            rollouts="n",
            completion=pl.concat_list(pl.struct(role=pl.lit("assistant"), content="response")),
        )
        asked = block.join(self._asked, on=QUESTION_KEYS, how="left", maintain_order="left", validate="m:1")
        return asked.select(pl.col(name).cast(kind) for name, kind in TRAINING_ROWS.items())
