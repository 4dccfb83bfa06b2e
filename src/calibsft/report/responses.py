"""The responses that a report lets people read: what models said, and what they were trained on.

Takes whole questions, evenly from all, so that a page stays small whatever the run's size and every shown question has
all its rollouts. Reads stage folders lazily: no more than what is shown is ever in memory. Does not write any page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibsft.artifacts import QUESTIONS, SUPERVISION, recorded_settings, shards
from calibsft.evaluation import ROWS
from calibsft.report.summary import Responses
from calibsft.responses.formats import Format, get_format
from calibsft.responses.parse import parse
from calibsft.schema import KEYS, LABEL, QUESTION_KEYS
from calibsft.targets.card import LABEL_TABLE, SFT_TABLE

RESPONSES = 100_000
TRAINING_SHARE = 10
TEXT_BYTES = 60_000_000
# What the page shows of a response.
SHOWN = (*KEYS, "correct", "confidence", "answer", "reason", "response")
LENGTH = pl.col("response").str.len_bytes().alias("bytes")
# What a token was trained for.
NOTHING, REASONING, CONFIDENCE = 0, 1, 2


def evaluated_responses(folders: Sequence[tuple[str, Path]], most: int = RESPONSES) -> list[Responses]:
    """The responses of the models evaluated in `folders` (label and folder), to the same questions where they share them."""
    if not folders or not most:
        return []
    tables = [pl.scan_parquet(folder / ROWS) for _, folder in folders]
    chosen = choose_questions(pl.concat(map(_sizes, tables)), most, TEXT_BYTES)
    found = []
    for (label, folder), table in zip(folders, tables, strict=True):
        rows = _streamed(_answering(table.select(SHOWN), chosen))
        total = table.select(pl.len()).collect().item()
        found.append(Responses(label, False, rows, _questions_of(folder / "rollouts", rows), total))
    return found


def file_responses(label: str, rows: pl.DataFrame, most: int = RESPONSES) -> list[Responses]:
    """The responses of a user's file; none where the file lacks responses or question ids.

    Questions and golds are shown where the file has them.
    """
    if not {"response", "question_id", "dataset"} <= set(rows.columns) or not most:
        return []
    chosen = choose_questions(_sizes(rows.lazy()), most, TEXT_BYTES)
    shown = rows.join(chosen, on=QUESTION_KEYS, how="semi")
    missing: dict[str, pl.Expr | pl.Series] = {
        "answer": pl.Series([parse(text).answer for text in shown["response"]], dtype=pl.String),
        "question": pl.lit(""),
        "gold": pl.lit([], pl.List(pl.String)),
    }
    shown = shown.with_columns(
        sample=pl.int_range(pl.len()).over(QUESTION_KEYS).cast(pl.Int32),
        **{name: value for name, value in missing.items() if name not in rows.columns},
    )
    asked = shown.select(*QUESTION_KEYS, pl.col("question").fill_null(""), pl.col("gold").list.drop_nulls())
    questions = asked.unique(QUESTION_KEYS, keep="first", maintain_order=True)
    return [Responses(label, False, shown.select(SHOWN), questions, len(rows))]


@dataclass(frozen=True, slots=True)
class Origin:
    """The stages that a training set comes from, by their folders' names: one build, of one or several folders of rollouts."""

    build: str
    rollouts: tuple[str, ...]
    verdicts: tuple[str, ...]


def set_of(root: Path, manifests: Mapping[str, Mapping[str, Any]], stage: str) -> Origin | None:
    """Where the training set of a fine-tuning stage comes from; None where not all of it is in `root`."""
    by_content = {manifest["content_hash"]: name for name, manifest in manifests.items()}
    data = manifests[stage]["inputs"].get("data")
    build = next((name for name, found in manifests.items() if found["files"].get(SFT_TABLE) == data), None)
    if build is None:
        return None
    inputs = manifests[build]["inputs"]
    rollouts, verdicts = (
        tuple(
            by_content.get(content, "") for name, content in inputs.items() if name.partition("-")[0] == kind
        )
        for kind in ("rollout", "verify")
    )
    return Origin(build, rollouts, verdicts) if rollouts and all((*rollouts, *verdicts)) else None


def trained_responses(
    root: Path, origin: Origin, stage: str, source: str, most: int, most_bytes: int, title: str = "CalibSFT"
) -> Responses:
    """The training set of a fine-tuning stage with all rollouts of its questions.

    `source` is the model that gave them, `title` the name of the fine-tuning.
    """
    confidence_format = get_format(recorded_settings(root / origin.build)["format"])
    trained = pl.scan_parquet(root / stage / SUPERVISION)
    labels = pl.scan_parquet(root / origin.build / LABEL_TABLE)
    texts = _scan(root, origin.rollouts).select(*KEYS, "response")
    asked = trained.select(QUESTION_KEYS).unique().collect()
    sizes = _answering(labels, asked).join(_answering(texts, asked).select(*KEYS, LENGTH), on=KEYS)
    chosen = choose_questions(sizes, most, most_bytes)
    shown = _answering(labels, chosen).join(_answering(texts, chosen), on=KEYS)
    rows = _with_targets(shown, confidence_format)
    verdicts = _answering(_scan(root, origin.verdicts), chosen).select(*KEYS, "confidence", "answer")
    rows = rows.lazy().join(verdicts, on=KEYS).join(_roles(trained), on=KEYS, how="left").collect().sort(KEYS)
    total = labels.select(pl.len()).collect().item()
    label = f"training set of {title}, from {source}"
    questions = pl.concat(_questions_of(root / rollouts, rows) for rollouts in origin.rollouts)
    return Responses(label, True, rows, questions.unique(QUESTION_KEYS, maintain_order=True), total)


def _scan(root: Path, stages: Sequence[str]) -> pl.LazyFrame:
    """The rows of these stages' shards."""
    return pl.scan_parquet([shard for stage in stages for shard in shards(root / stage)])


def choose_questions(sizes: pl.LazyFrame, most: int, most_bytes: int) -> pl.DataFrame:
    """Questions, evenly spread over all, with about `most` responses and `most_bytes` bytes of text at most."""
    counted = sizes.group_by(QUESTION_KEYS).agg(n=pl.len(), bytes=pl.col("bytes").sum())
    found = _streamed(counted.sort(QUESTION_KEYS))
    share = min(1.0, most / max(1, found["n"].sum()), most_bytes / max(1, found["bytes"].sum()))
    wanted = max(1, int(len(found) * share))
    chosen: pl.DataFrame = found[np.linspace(0, len(found) - 1, wanted).round().astype(int).tolist()]
    return chosen.select(QUESTION_KEYS)


def _streamed(table: pl.LazyFrame) -> pl.DataFrame:
    """The result of a query that looks at the texts of all responses, without all of them in memory."""
    return table.collect(engine="streaming")


def _answering(table: pl.LazyFrame, questions: pl.DataFrame) -> pl.LazyFrame:
    """The responses to these questions, in order.

    The filter keeps other texts from being decoded; rows that a join alone would choose keep all texts of their file.
    """
    known = table.filter(pl.col("question_id").is_in(questions["question_id"].implode()))
    return known.join(questions.lazy(), on=QUESTION_KEYS, how="semi", maintain_order="left")


def _sizes(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.select(*QUESTION_KEYS, LENGTH)


def _questions_of(rollouts: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """The questions of these rows, with their golds."""
    table = pl.read_parquet(rollouts / QUESTIONS, columns=[*QUESTION_KEYS, "question", "gold"])
    return table.join(rows, on=QUESTION_KEYS, how="semi")


def _with_targets(labelled: pl.LazyFrame, confidence_format: Format) -> pl.DataFrame:
    """Responses with the text of their target, null for those that are not trained on."""
    rows = _streamed(labelled.select(*KEYS, "correct", "reason", "response", *LABEL))
    pairs = rows.select(LABEL).iter_rows()
    texts = [None if n is None else confidence_format.render(Fraction(n, d)) for n, d in pairs]
    return rows.drop(LABEL).with_columns(pl.Series("target", texts, pl.String))


def _roles(trained: pl.LazyFrame) -> pl.LazyFrame:
    """What each token was trained for: nothing, reasoning and answer, or confidence."""
    rows = trained.collect()
    roles = [
        [
            (CONFIDENCE if place >= start else REASONING) if weight else NOTHING
            for place, weight in enumerate(weights)
        ]
        for weights, start in rows.select("weights", "confidence_at").iter_rows()
    ]
    return rows.select(*KEYS, "tokens", pl.Series("roles", roles, dtype=pl.List(pl.Int8))).lazy()
