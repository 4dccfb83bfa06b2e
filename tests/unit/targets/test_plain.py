"""The training set of a pool is the one that plain Python makes, row by row, with everything in memory."""

import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render, replace_confidence
from calibsft.success_rates import ending_column
from calibsft.targets import stored_texts
from calibsft.targets.build import build
from calibsft.targets.calibsft import CalibSftSettings, mixed_target
from calibsft.targets.pool import Pool
from calibsft.targets.ranks import as_ranks, rank, ranks_of

Row = dict[str, Any]
FORMAT = FORMATS["probability"]
ODD = [
    "plain",
    "it's",
    "both \"and'",
    "back\\slash",
    "new\nline",
    "naïve ✓",
    "\x00\x7f\u200b",
    "",
    "))",
    "', 7))",
]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(ODD)


def pool_rows(questions: int = 60, samples: int = 7) -> list[Row]:
    """Responses with odd ids in mixed order, some malformed or truncated, with known, empty and unknown token ids."""
    random = Random(4)
    rows = []
    for question in range(questions):
        rate = random.random()
        for sample in range(samples):
            said = render(
                f"thought {sample} ✓ " * random.randrange(9), str(sample), f"0.{random.randrange(100):02d}"
            )
            rows.append(
                {
                    "dataset": ODD[question % 3], "question_id": f"{ODD[question % len(ODD)]}{question}", "sample": sample,
                    "question": f"Ünder {question}?", "response": said if random.random() < 0.9 else said[:-20],
                    "finished": random.random() < 0.95, "correct": random.random() < rate,
                    "token_ids": random.choice([None, [], [random.randrange(10**5) for _ in range(sample)]]),
                }
            )  # fmt: skip
    random.shuffle(rows)
    return rows


def plainly(rows: list[Row], redraws: int, seed: int) -> list[Row]:
    """The training set, from the definitions."""
    right: dict[Any, list[bool]] = defaultdict(list)
    for row in rows:
        right[row["dataset"], row["question_id"]].append(row["correct"] and row["finished"])
    groups = defaultdict(list)
    for row in rows:
        outcomes = right[row["dataset"], row["question_id"]]
        if parse(row["response"], FORMAT, finished=row["finished"]).ok:
            target = mixed_target(Fraction(sum(outcomes), len(outcomes)), row["correct"], Fraction(1, 2))
            groups[target].append(row)
    size = min(map(len, groups.values()))
    found = []
    for draw in range(redraws):
        for target, members in sorted(groups.items()):
            ids = {
                id(row): rank(seed, draw, (row["dataset"], row["question_id"], row["sample"]))
                for row in members
            }
            for row in sorted(members, key=lambda row: ids[id(row)])[:size]:
                text = replace_confidence(
                    row["response"], parse(row["response"], FORMAT), FORMAT.render(target)
                )
                kept = {
                    name: row[name]
                    for name in ("dataset", "question_id", "sample", "question", "correct", "token_ids")
                }
                found.append({**kept, "draw": draw, "response": text, "target": float(target)})
    return found


@pytest.mark.parametrize("part", [5, 50, 1000])
def test_the_training_set_is_the_one_of_the_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(stored_texts, "BLOCK_BYTES", 100 * part)
    rows = pool_rows()
    frame = pl.DataFrame(rows, schema_overrides={"sample": pl.Int32, "token_ids": pl.List(pl.Int32)})
    reasons = [parse(row["response"], FORMAT, finished=row["finished"]).reason.value for row in rows]
    stated = pl.lit(None, pl.Float64).alias("confidence")
    graded = frame.with_columns(ending_column(), pl.Series("reason", reasons), stated).lazy()
    parts = tuple(frame.slice(start, part).select for start in range(0, len(frame), part))
    pool = Pool(graded, parts, frame.lazy(), frame.lazy().unique(["dataset", "question_id"]))
    build(pool, CalibSftSettings(redraws=3), FORMAT, 11, "pool", tmp_path)
    expected = plainly(rows, 3, 11)
    assert len(expected) > 60
    assert pl.read_parquet(tmp_path / "sft.parquet").select(*expected[0]).rows(named=True) == expected
    chats = [
        json.loads(line) for line in (tmp_path / "sft.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    ]
    assert [chat["messages"][-1]["content"] for chat in chats] == [row["response"] for row in expected]
    assert [(chat["question_id"], chat["draw"]) for chat in chats] == [
        (row["question_id"], row["draw"]) for row in expected
    ]


@given(
    st.lists(st.tuples(texts, texts, st.integers(0, 2**31 - 1)), max_size=20),
    st.integers(0, 2**32 - 1),
    st.integers(0, 9),
)
def test_the_ranks_of_a_table_are_those_of_its_rows(
    ids: list[tuple[str, str, int]], seed: int, draw: int
) -> None:
    keys = pl.DataFrame(
        ids, schema={"dataset": pl.String, "question_id": pl.String, "sample": pl.Int32}, orient="row"
    )
    expected = as_ranks(rank(seed, draw, row_id) for row_id in ids)
    assert ranks_of(keys, seed, draw).tolist() == expected.tolist()
    coded = keys.with_columns(pl.col("dataset", "question_id").cast(pl.Categorical))
    assert ranks_of(coded, seed, draw).tolist() == expected.tolist()


def test_ranks_are_ordered_as_the_hashes_themselves() -> None:
    hashes = [rank(0, 0, number) for number in range(200)] + [bytes(8) + b"\xff" * 8, bytes(16), b"\xff" * 16]
    ranks = as_ranks(hashes).tolist()
    assert sorted(range(len(hashes)), key=hashes.__getitem__) == sorted(
        range(len(hashes)), key=ranks.__getitem__
    )
