"""Rows that are too long for training: what is left of a balanced training set is balanced."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from calibsft.artifacts import SUPERVISION, write_parquet
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.schema import KEYS, STRATUM
from calibsft.sft.batches import training_order
from calibsft.sft.fine_tune import fine_tune
from calibsft.sft.fitting_rows import balanced_again
from calibsft.sft.settings import SftSettings

TARGETS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
EACH = 6
LIMIT = 40


def training_set(draws: int = 1, each: tuple[int, ...] = (EACH, EACH, EACH)) -> pl.DataFrame:
    """A balanced set with as many rows of every target in every draw; the playground's tokens."""
    rows = [
        {
            "draw": draw, "dataset": "d", "question_id": f"{draw}-{target}-{i}", "sample": 0, "question": f"{10 + i}*11",
            "response": f"<think>{i:04d}+000</think><answer>{i:04d}</answer><confidence>0.50</confidence>",
            "stratum_numerator": target.numerator, "stratum_denominator": target.denominator, "correct": i % 2 == 0,
        }
        for draw in range(draws)
        for target, count in zip(TARGETS, each, strict=True)
        for i in range(count)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def lengthened(rows: pl.DataFrame, long: list[str]) -> pl.DataFrame:
    question = pl.when(pl.col("question_id").is_in(long)).then(pl.lit("1" * 25)).otherwise("question")
    return rows.with_columns(question=question)


def counts(rows: pl.DataFrame) -> dict[tuple[int, Fraction], int]:
    columns = ("draw", *STRATUM)
    return Counter((draw, Fraction(n, d)) for draw, n, d in rows.select(columns).iter_rows())


def trained_on(checkpoint: Path, rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """The rows that a fine-tuning of one step took."""
    folder.mkdir()
    write_parquet(folder / "sft.parquet", rows)
    settings = SftSettings(steps=1, batch_size=2, micro_batch_size=2, max_tokens=LIMIT)
    fine_tune(
        str(checkpoint), folder / "sft.parquet", settings, Prompting(FORMATS["probability"]), 0, folder, "cpu"
    )
    return rows.join(pl.read_parquet(folder / SUPERVISION), on=KEYS, how="semi")


def test_a_balanced_training_set_is_balanced_again_over_the_rows_that_fit(
    random_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = ["0-1/4-0", "0-1/4-3", "0-1/4-5", "0-3/4-1"]
    trained = trained_on(random_checkpoint, lengthened(training_set(), long), tmp_path / "run")
    assert counts(trained) == {(0, target): EACH - 3 for target in TARGETS}
    assert not set(trained["question_id"]) & set(long)
    said = capsys.readouterr().err
    assert f"4 of 18 rows exceed {LIMIT} tokens and are left out, and 5 others" in said and "9 stay" in said


def test_a_training_set_without_long_rows_is_taken_whole(random_checkpoint: Path, tmp_path: Path) -> None:
    assert len(trained_on(random_checkpoint, training_set(), tmp_path / "run")) == 3 * EACH


def test_an_unbalanced_training_set_loses_its_long_rows_alone(
    random_checkpoint: Path, tmp_path: Path
) -> None:
    rows = lengthened(training_set(each=(6, 4, 2)), ["0-1/4-0", "0-1/2-1"])
    trained = trained_on(random_checkpoint, rows, tmp_path / "run")
    assert sorted(counts(trained).values()) == [2, 3, 5]


def test_rows_without_target_groups_all_stay() -> None:
    rows = training_set().drop(STRATUM)
    assert balanced_again(rows, [0, 1, 2, 9], seed=0) == [0, 1, 2, 9]


def test_every_draw_is_balanced_by_itself() -> None:
    rows = training_set(draws=2)
    # The first draw loses two rows of its first target; the second one of its second, and its last target as a whole.
    short = [row for row in range(len(rows)) if row not in {0, 1, 24, *range(30, 36)}]
    kept = balanced_again(rows, short, seed=0)
    assert kept == sorted(set(kept)) and set(kept) <= set(short)
    assert counts(rows[kept]) == {(0, target): 4 for target in TARGETS} | {(1, t): 5 for t in TARGETS[:2]}


def test_what_stays_is_drawn_by_the_seed_and_not_by_the_order_of_rows() -> None:
    rows, short = training_set(), list(range(4, 18))
    kept = {seed: set(rows[balanced_again(rows, short, seed)]["question_id"]) for seed in (0, 1)}
    turned = rows.reverse()
    again = balanced_again(turned, [17 - row for row in short], 0)
    assert set(turned[again]["question_id"]) == kept[0] != kept[1]


def test_training_takes_in_turn_the_draws_that_have_rows() -> None:
    order = training_order([0, 0, 2, 2], 8, seed=0)
    assert [set(order[start : start + 2]) for start in (0, 2, 4, 6)] == [{0, 1}, {2, 3}] * 2
