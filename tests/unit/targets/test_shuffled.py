"""The control `shuffled`: CalibSFT's labels and balance, and nothing that a label says of its response."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from calibsft.metrics import evaluate
from calibsft.responses.parse import render
from calibsft.schema import KEYS, LABEL
from command import Command

N, COPIES = 10, 30


def write(name: str, seed: int | None = None) -> str:
    """A file with `COPIES` questions of each success rate; `seed` shuffles its rows."""
    rows: list[dict[str, Any]] = [
        {"question_id": f"{k}-{copy}", "question": f"{k}, {copy}?", "sample": sample,
         "response": render(f"{sample}", "7", "0.50"), "correct": sample < k}
        for k in range(N + 1) for copy in range(COPIES) for sample in range(N)
    ]  # fmt: skip
    if seed is not None:
        Random(seed).shuffle(rows)
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def built(calibsft: Command, target: str, *options: str, pool: str = "pool.jsonl", out: str = "") -> Path:
    folder = Path(out or f"{target} {' '.join(options)}")
    code, _, err = calibsft("build", pool, "--target", target, "--out", str(folder), *options)
    assert code == 0, err
    return folder


def targets_of(folder: Path) -> Counter[Fraction]:
    rows = pl.read_parquet(folder / "sft.parquet", columns=["target_numerator", "target_denominator"])
    return Counter(Fraction(*pair) for pair in rows.iter_rows())


@pytest.mark.parametrize(
    "options",
    [(), ("--mix", "0.25"), ("--no-balance",), ("--no-balance", "--pairs", "20"), ("--redraws", "2")],
)
def test_every_label_is_there_as_often_as_in_calibsft(calibsft: Command, options: tuple[str, ...]) -> None:
    write("pool.jsonl")
    real, control = (built(calibsft, target, *options) for target in ("calibsft", "shuffled"))
    assert targets_of(control) == targets_of(real)
    found = [json.loads((folder / "targets.json").read_text()) for folder in (real, control)]
    for key in ("responses", "filtered", "before", "after", "group_size", "rows", "pairs"):
        assert found[0][key] == found[1][key], key


def test_a_label_says_nothing_of_its_response(calibsft: Command) -> None:
    write("pool.jsonl")
    labels = pl.read_parquet(built(calibsft, "shuffled") / "labels.parquet")
    stated = labels[LABEL[0]] / labels[LABEL[1]]
    assert 0.45 < evaluate(stated, labels["correct"])["auroc"] < 0.55
    assert abs(pl.DataFrame({"a": stated, "b": labels["successes"]}).select(pl.corr("a", "b")).item()) < 0.1
    real = pl.read_parquet(built(calibsft, "calibsft") / "labels.parquet")
    assert labels.select(KEYS).equals(real.select(KEYS))
    assert (stated != real[LABEL[0]] / real[LABEL[1]]).mean() > 0.8


def test_row_order_does_not_matter(calibsft: Command) -> None:
    first = built(calibsft, "shuffled", pool=write("pool.jsonl"), out="first")
    again = built(calibsft, "shuffled", pool=write("mixed.jsonl", seed=3), out="again")
    for name in ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json"):
        assert (first / name).read_bytes() == (again / name).read_bytes(), name
