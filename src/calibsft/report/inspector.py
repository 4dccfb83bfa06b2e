"""Pack responses into the page: a small index that filters work on, and compressed texts that are opened on demand.

Everything is JSON, gzipped and in base64, so nothing that a model wrote can be markup. A chunk of texts is unpacked in
the reader's browser when one of its questions is opened; the script that does so is `templates/inspector.js`.
"""

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from calibsft.report.summary import Responses
from calibsft.schema import QUESTION_KEYS
from calibsft.text import printable

CHUNK_BYTES = 500_000
TITLE_CHARACTERS = 90
ANSWER_CHARACTERS = 40
UNGRADED = 2  # the verdict of an ungraded response; 0 is wrong, 1 is right


@dataclass(frozen=True, slots=True)
class Packed:
    """The index and the chunks, each as base64 text."""

    index: str
    chunks: tuple[str, ...]
    shown: int
    total: int


def pack(origins: Sequence[Responses]) -> Packed | None:
    """Pack the responses of all origins; None where there are none."""
    shown = sum(len(origin.rows) for origin in origins)
    if not shown:
        return None
    questions = _questions(origins)
    rows = _rows(origins, questions)
    chunks, places = _chunks(questions, rows)
    index = {
        "origins": [
            {"label": printable(o.label), "training": o.training, "shown": len(o.rows), "total": o.total}
            for o in origins
        ],
        "benchmarks": questions["dataset"].unique(maintain_order=True).to_list(),
        "questions": {
            "benchmark": questions["dataset"].to_list(),
            "id": questions["question_id"].to_list(),
            "title": [_short(text, TITLE_CHARACTERS) for text in questions["question"]],
            "chunk": [chunk for chunk, _ in places],
            "place": [place for _, place in places],
        },
        "responses": {
            "origin": rows["origin"].to_list(),
            "question": rows["question"].to_list(),
            "sample": rows["sample"].to_list(),
            "verdict": rows["correct"].cast(pl.Int8).fill_null(UNGRADED).to_list(),
            "confidence": rows["confidence"].round(4).to_list(),
            "answer": [_short(text or "", ANSWER_CHARACTERS) for text in rows["answer"]],
        },
    }
    return Packed(_packed(index), tuple(chunks), shown, sum(origin.total for origin in origins))


def _questions(origins: Sequence[Responses]) -> pl.DataFrame:
    """Every question once, numbered; benchmarks in the order of the origins."""
    together = pl.concat([origin.questions for origin in origins])
    return together.unique(QUESTION_KEYS, keep="first", maintain_order=True).with_row_index("number")


def _rows(origins: Sequence[Responses], questions: pl.DataFrame) -> pl.DataFrame:
    """All responses, those of a question together, with the numbers of their question and origin."""
    parts = [
        origin.rows.with_columns(
            origin=pl.lit(number, pl.Int32), confidence=pl.col("confidence").cast(pl.Float64)
        )
        for number, origin in enumerate(origins)
    ]
    numbers = questions.select(*QUESTION_KEYS, question=pl.col("number").cast(pl.Int64))
    together = pl.concat(parts, how="diagonal").join(numbers, on=QUESTION_KEYS, how="inner")
    return together.sort("question", "origin", "sample")


def _chunks(questions: pl.DataFrame, rows: pl.DataFrame) -> tuple[list[str], list[tuple[int, int]]]:
    """The texts in chunks of whole questions, and for every question its chunk and its place in it."""
    chunks: list[str] = []
    places: list[tuple[int, int]] = []
    entries: list[dict[str, Any]] = []
    size = 0
    for entry, entry_size in _entries(questions, rows):
        if entries and size + entry_size > CHUNK_BYTES:
            chunks.append(_packed(entries))
            entries, size = [], 0
        places.append((len(chunks), len(entries)))
        entries.append(entry)
        size += entry_size
    return [*chunks, _packed(entries)], places


def _entries(questions: pl.DataFrame, rows: pl.DataFrame) -> Iterator[tuple[dict[str, Any], int]]:
    """What is read of each question, with about how many characters it has."""
    texts = [name for name in ("response", "reason", "target", "tokens", "roles") if name in rows.columns]
    grouped = rows.group_by("question", maintain_order=True).agg(pl.struct(texts).alias("texts"))
    by_question = dict(grouped.iter_rows())
    for number, text, golds in questions.select("number", "question", "gold").iter_rows():
        responses = [
            {key: value for key, value in row.items() if value is not None}
            for row in by_question.get(number, ())
        ]
        size = len(text) + sum(len(response["response"]) for response in responses)
        yield {"question": text, "golds": golds, "responses": responses}, size


def _packed(data: Any) -> str:
    raw = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(raw, mtime=0)).decode("ascii")


def _short(text: str, characters: int) -> str:
    text = " ".join(printable(text[: 4 * characters]).split())
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
