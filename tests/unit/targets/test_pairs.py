"""The shared pool of pairs: which questions and responses are in it, what each target says of them, what is refused."""

import json
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.evidence.evidence import EXACT
from calibsft.metrics import evaluate
from calibsft.recipe import load_recipe
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render
from calibsft.schema import KEYS
from calibsft.success_rates import ending_column
from calibsft.table_schemas import GRADED
from calibsft.targets import TARGETS
from calibsft.targets.build import build
from calibsft.targets.pool import Pool
from calibsft.targets.summary import BuildSummary
from command import Command

N, COPIES = 10, 4
CREATED = ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json")


def responses(copies: Iterable[int] = (COPIES,) * (N + 1), extra: int = 0) -> list[dict[str, Any]]:
    """Responses to `copies[k]` questions with k right ones of ten, and `extra` wrong ones after these."""
    return [
        {
            "dataset": "", "question_id": f"{k}-{copy}", "question": f"{k}, {copy}?", "sample": sample,
            "response": render(f"{sample}", "7", "0.50"), "correct": sample < k,
        }
        for k, number in enumerate(copies)
        for copy in range(number)
        for sample in range(N + extra)
    ]  # fmt: skip


def pool_of(rows: list[dict[str, Any]], part: int = 10_000) -> Pool:
    """The pool of these responses, in parts of so many rows."""
    parsed = [parse(row["response"]) for row in rows]
    frame = pl.DataFrame(rows, schema_overrides={"sample": pl.Int32}).with_columns(
        pl.Series("reason", [one.reason.value for one in parsed]),
        pl.Series("confidence", [one.confidence for one in parsed], pl.Float64),
        finished=pl.lit(True),
        token_ids=pl.lit(None, pl.List(pl.Int32)),
    )
    frame = frame.with_columns(ending_column())
    parts = tuple(frame.slice(start, part).select for start in range(0, len(frame), part))
    asked = frame.lazy().select("dataset", "question_id", "question").unique()
    return Pool(frame.lazy().select(*GRADED), parts, frame.lazy().select(KEYS), asked)


def evidence_of(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    """What might have been measured of them."""
    keys = pl.DataFrame(rows, schema_overrides={"sample": pl.Int32}).lazy().select(KEYS)
    tenths = pl.struct(numerator=pl.col("sample") % 10 + 1, denominator=pl.lit(10)).cast(EXACT)
    return keys.with_columns(
        (-pl.col("sample") / 10).alias("mean-logprob"),
        tenths.alias("cluster-share"),
        tenths.alias("judge-score"),
    )


def built(
    folder: Path, name: str = "calibsft", seed: int = 0, rows: Any = None, part: int = 10_000, **settings: Any
) -> tuple[BuildSummary, pl.DataFrame]:
    """A training set of pairs of these responses, and what its build says."""
    rows = responses() if rows is None else rows
    target = TARGETS[name].settings(**{"name": name, "balance": False, "pairs": 3, **settings})
    probability = FORMATS["probability"]
    summary = build(
        pool_of(rows, part), target, probability, seed, "pool", folder, evidence=evidence_of(rows)
    )
    assert BuildSummary.read(folder) == summary
    return summary, pl.read_parquet(folder / "sft.parquet")


def targets_of(table: pl.DataFrame) -> list[Fraction]:
    return [Fraction(*pair) for pair in table.select("target_numerator", "target_denominator").iter_rows()]


def keys_of(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    return table.select(KEYS).rows()


def test_every_success_rate_has_as_many_questions_with_a_right_and_a_wrong_response(tmp_path: Path) -> None:
    summary, table = built(tmp_path)
    assert Counter(table["successes"]) == dict.fromkeys(range(1, N), 6)
    both = table.group_by("question_id").agg(pl.col("correct").sort())
    assert set(map(tuple, both["correct"])) == {(False, True)} and len(both) == 3 * 9
    assert summary.pairs == 3 and (summary.rows, summary.rows_questions) == (54, 27)


@pytest.mark.parametrize(
    "name, brier, auroc", [("csft", Fraction(19, 60), 0.5), ("calibsft", Fraction(19, 240), 1.0)]
)
def test_targets_score_as_the_paper_says(tmp_path: Path, name: str, brier: Fraction, auroc: float) -> None:
    _, table = built(tmp_path, name)
    pairs = zip(targets_of(table), table["correct"], strict=True)
    assert sum(((target - right) ** 2 for target, right in pairs), Fraction(0)) / len(table) == brier
    assert evaluate(table["target"], table["correct"])["auroc"] == auroc


@pytest.mark.parametrize(
    "name, eighteenths",
    [
        # One ninth at each of .1 ... .9; and .05, .10, ... .45 for wrong, .55, ... .95 for right responses.
        ("csft", [2, 2, 2, 2, 2, 2, 2, 2, 2, 0]),
        ("calibsft", [2, 2, 2, 2, 1, 2, 2, 2, 2, 1]),
    ],
)
def test_targets_spread_over_right_closed_bins_as_the_paper_says(
    tmp_path: Path, name: str, eighteenths: list[int]
) -> None:
    _, table = built(tmp_path, name)
    bins = Counter(max(-(-target * 10 // 1), 1) for target in targets_of(table))
    assert [Fraction(bins[number], len(table)) for number in range(1, 11)] == [
        Fraction(share, 18) for share in eighteenths
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_all_targets_label_the_same_pool_in_the_same_order(tmp_path: Path, name: str) -> None:
    _, expected = built(tmp_path / "expected")
    summary, table = built(tmp_path / "other", name)
    left_out = expected.filter(~pl.col("correct")) if name == "sayself" else expected.clear()
    assert keys_of(table) == [key for key in keys_of(expected) if key not in set(keys_of(left_out))]
    assert summary.filtered == {"unpaired": 11 * COPIES * N - 54} | (
        {"unlabelled": 27} if name == "sayself" else {}
    )
    labels = pl.read_parquet(tmp_path / "other" / "labels.parquet")
    assert len(labels) == summary.responses == 11 * COPIES * N
    assert set(keys_of(labels.filter("drawn"))) == set(keys_of(table))
    assert sum(summary.before.values()) == sum(summary.after.values()) == summary.rows == len(table)


def test_row_order_and_parts_do_not_matter_and_the_seed_does(tmp_path: Path) -> None:
    rows = responses()
    built(tmp_path / "first", rows=rows)
    Random(1).shuffle(rows)
    built(tmp_path / "again", rows=rows, part=7)
    for name in CREATED:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    tables = [built(tmp_path / f"seed {seed}", seed=seed)[1] for seed in range(4)]
    assert len({frozenset(table["question_id"]) for table in tables}) == 4
    # All four questions of each rate, so that seeds differ in their responses alone.
    tables = [built(tmp_path / f"all {seed}", seed=seed, pairs=COPIES)[1] for seed in range(4)]
    assert len({frozenset(table["question_id"]) for table in tables}) == 1
    assert len({frozenset(keys_of(table)) for table in tables}) == 4


def test_fewer_samples_of_a_larger_pool(tmp_path: Path) -> None:
    more = responses(extra=40)
    summary, table = built(tmp_path / "ten", rows=more, samples=N)
    assert set(table["rollouts"]) == {N} and summary.responses == 11 * COPIES * N
    assert table.equals(built(tmp_path / "plain")[1])


def test_the_rarest_rate_decides_when_it_has_fewer_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = [5] * (N + 1)
    copies[7] = 2
    summary, table = built(tmp_path, rows=responses(copies), pairs=300)
    assert summary.pairs == 2 and Counter(table["successes"]) == dict.fromkeys(range(1, N), 4)
    assert (
        "warning: pool: 2 questions of success rate 7/10 have a well-formed right and a well-formed wrong response, so 2 of"
        " each rate are used instead of 300" in capsys.readouterr().err
    )
    built(tmp_path, rows=responses(copies), pairs=2)
    assert capsys.readouterr().err == ""


def test_malformed_responses_count_in_rates_and_are_never_chosen(tmp_path: Path) -> None:
    rows = responses()
    for row in rows:
        # The only right response of one question, and all right ones but the last of another.
        if row["sample"] < {"1-0": 1, "3-0": 2}.get(row["question_id"], 0):
            row["response"] = "nothing"
    _, table = built(tmp_path, rows=rows, pairs=COPIES - 1)
    assert "1-0" not in set(table["question_id"]) and Counter(table["successes"])[1] == 2 * 3
    _, table = built(tmp_path, rows=[row for row in rows if row["question_id"] != "1-0"], pairs=COPIES)
    assert table.filter(pl.col("question_id") == "3-0").filter("correct")["sample"].to_list() == [2]


def test_a_pool_without_pairs_of_every_rate_is_refused(tmp_path: Path) -> None:
    complaint = (
        r"^pool: no question of success rate 2/10 has .* \(2 such rates\), .*; add questions, or lower"
    )
    with pytest.raises(InputError, match=complaint):
        built(tmp_path, rows=responses([4, 4, 0, 0, *[4] * 7]))


def test_questions_with_different_numbers_of_responses_are_refused(tmp_path: Path) -> None:
    longer = [row | {"question_id": "longer"} for row in responses([1], extra=2)]
    shorter = [row | {"question_id": "shorter"} for row in responses([1])[:8]]
    complaint = r"^pool: questions have 8 to 12 responses, .*; add --samples 8, or sample"
    with pytest.raises(InputError, match=complaint):
        built(tmp_path, rows=[*responses(), *longer, *shorter])


def test_pairs_need_success_rates_whatever_the_target(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has a single rollout, which gives no success rate"):
        built(tmp_path, "stated", rows=[row for row in responses() if row["sample"] == 0])


def test_balancing_beside_pairs_is_refused() -> None:
    with pytest.raises(InputError, match=r"targets\.pairs replaces balancing, so it needs balance false"):
        load_recipe("tiny", ["targets.pairs=30"])
    given = ["targets.pairs=30", "targets.balance=false", "targets.min_group=1", "targets.redraws=1"]
    assert load_recipe("tiny", given).targets.pairs == 30


def test_the_command_says_how_many_questions_of_each_rate_it_kept(calibsft: Command) -> None:
    Path("pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in responses()))
    code, _, err = calibsft("build", "pool.jsonl", "--pairs", "3", "--out", "refused")
    assert (
        code == 2
        and "targets.pairs replaces balancing, so it needs balance false (--no-balance); change either" in err
    )
    code, out, err = calibsft("build", "pool.jsonl", "--pairs", "3", "--no-balance", "--out", "o")
    assert code == 0, err
    assert "discarded: unpaired 386" in out
    assert "kept 54 responses of 27 questions, 3 questions of each success rate" in out
    assert json.loads(Path("o/targets.json").read_text())["pairs"] == 3
