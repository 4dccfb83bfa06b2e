"""The target `stated`: well-formed responses as they are, whatever they answer and however sure they are."""

import json
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse
from calibsft.targets import TARGETS
from command import Command

STATED = TARGETS["stated"]
THINK = (
    '  Grüße\r\n\tà 2 × 3 = 6, "quoted"</think>\n\n<answer>\n7 </answer>\n <confidence>\n {} </confidence>\n'
)


def write(rows: list[tuple[str, str, bool]]) -> None:
    keys = ("question_id", "response", "correct")
    rows_of = [dict(zip(keys, row, strict=True)) | {"question": f"{row[0]}?"} for row in rows]
    Path("pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of), encoding="utf-8")


def built(calibsft: Command, *options: str) -> pl.DataFrame:
    code, _, err = calibsft("build", "pool.jsonl", "--target", "stated", "--out", "o", *options)
    assert code == 0, err
    return pl.read_parquet("o/sft.parquet")


@pytest.mark.parametrize("name", FORMATS)
def test_the_label_of_every_text_of_a_format_is_its_exact_value(name: str) -> None:
    exact = [FORMATS[name].value_of(word) for word in FORMATS[name].words]
    rows = pl.DataFrame({"confidence": [float(value) for value in exact]})
    found = STATED.label(rows, STATED.settings(name="stated"))
    assert [Fraction(*pair) for pair in found.iter_rows()] == exact


@pytest.mark.parametrize("name", FORMATS)
def test_every_well_formed_response_stays_byte_for_byte(calibsft: Command, name: str) -> None:
    words = FORMATS[name].words
    write([(f"q{i % 7}", THINK.format(word), i % 3 == 0) for i, word in enumerate(words)])
    table = built(calibsft, "--format", name)
    assert table["response"].to_list() == [THINK.format(word) for word in words]
    for text, *label in table.select("response", "target_numerator", "target_denominator").iter_rows():
        assert parse(text, name).value == Fraction(*label)
    assert set(table["draw"]) == {0} and sorted(set(table["correct"])) == [False, True]


def test_what_is_malformed_or_unfinished_is_left_out(calibsft: Command) -> None:
    whole = THINK.format("0.90")
    write(
        [
            ("q1", whole, False),
            ("q1", "no idea", True),
            ("q2", THINK.format("0.9"), True),
            ("q2", whole, True),
        ]
    )
    assert built(calibsft)["response"].to_list() == [whole, whole]
    assert json.loads(Path("o/targets.json").read_text())["filtered"] == {
        "bad_confidence": 1,
        "missing_think_end": 1,
    }


@pytest.mark.parametrize("right", [True, False])
def test_no_success_rate_is_needed(calibsft: Command, right: bool) -> None:
    """One response a question, all right and sure of it, or all wrong and sure of that: the format can still be learnt."""
    write([(f"q{i}", THINK.format("1.00" if right else "0.00"), right) for i in range(5)])
    assert len(built(calibsft)) == 5
    code, _, err = calibsft("build", "pool.jsonl", "--out", "other")
    assert code == 2 and "has a single rollout" in err


def test_balancing_can_be_asked_for(calibsft: Command) -> None:
    write([(f"q{i}", THINK.format("0.90" if i else "0.10"), True) for i in range(5)])
    assert len(built(calibsft)) == 5
    assert sorted(pl.read_parquet("o/sft.parquet")["target"].to_list()) == [0.1, *[0.9] * 4]
    code, _, err = calibsft("build", "pool.jsonl", "--target", "stated", "--balance", "--out", "balanced")
    assert code == 0, err
    assert sorted(pl.read_parquet("balanced/sft.parquet")["target"].to_list()) == [0.1, 0.9]


def test_another_format_states_the_same_as_near_as_it_can(calibsft: Command) -> None:
    write([("q1", THINK.format(word), True) for word in ("0.00", "0.52", "0.95", "1.00")])
    table = built(calibsft, "--from-format", "probability", "--format", "integer")
    assert table["response"].to_list() == [THINK.format(word) for word in "0599"]
    assert table["target"].to_list() == [0.0, 0.52, 0.95, 1.0]


def test_the_note_says_that_every_token_is_trained(calibsft: Command) -> None:
    write([(f"q{i}", THINK.format("0.90"), False) for i in range(3)])
    code, _, err = calibsft("build", "pool.jsonl", "--target", "stated", "--out", "o")
    assert code == 0 and "would imitate" not in err
    note = Path("o/README.md").read_text(encoding="utf-8")
    assert "Every token of every response is trained" in note and "imitates wrong reasoning" not in note
    fields = json.loads(Path("o/sft.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert all(f"`{name}`" in note for name in fields)
