"""What a build keeps of all responses, what evidence its target needs, and how it reads a pool in parts."""

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.evidence.evidence import EXACT
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render
from calibsft.schema import KEYS, LABEL, STRATUM
from calibsft.sft.fitting_rows import balanced_again
from calibsft.success_rates import ending_column
from calibsft.table_schemas import LABELS, TRAINING_ROWS
from calibsft.targets import TARGETS
from calibsft.targets.build import build
from calibsft.targets.pool import Pool
from calibsft.targets.summary import BuildSummary

QUESTIONS, SAMPLES = 40, 4
Built = Callable[..., tuple[BuildSummary, Path]]


def responses() -> pl.DataFrame:
    """Graded responses: question i has i % 5 right ones of four; the last sample of some is malformed or unfinished."""
    rows = []
    for question in range(QUESTIONS):
        for sample in range(SAMPLES):
            odd = sample == SAMPLES - 1
            rows.append(
                {
                    "dataset": "d", "question_id": f"q{question:02d}", "sample": sample, "question": f"{question}?",
                    "response": "nothing" if odd and question % 7 == 0 else render(f"{sample}", "7", "0.50"),
                    "finished": not (odd and question % 11 == 5), "correct": sample < question % 5,
                    "token_ids": [question, sample],
                }
            )  # fmt: skip
    frame = pl.DataFrame(rows, schema_overrides={"sample": pl.Int32, "token_ids": pl.List(pl.Int32)})
    parsed = [
        parse(text, finished=finished) for text, finished in frame.select("response", "finished").iter_rows()
    ]
    return frame.with_columns(
        ending_column(),
        pl.Series("reason", [one.reason.value for one in parsed]),
        pl.Series("confidence", [one.confidence for one in parsed]),
    )


def asked(rows: pl.DataFrame) -> pl.LazyFrame:
    return rows.lazy().select("dataset", "question_id", "question").unique()


def exact(numerator: pl.Expr, denominator: int) -> pl.Expr:
    return pl.struct(numerator=numerator, denominator=pl.lit(denominator)).cast(EXACT)


def evidence() -> pl.DataFrame:
    """What might have been measured of them: as many different mean probabilities as there are responses."""
    number = pl.int_range(pl.len())
    return (
        responses()
        .select(KEYS)
        .with_columns(
            (-(number + 1) / 40).alias("mean-logprob"),
            exact(number % 3 + 1, 4).alias("cluster-share"),
            exact(number % 11, 10).alias("judge-score"),
        )
    )


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Build a training set of these responses, cut into parts of so many rows."""

    def run(
        name: str = "calibsft", part: int = 1000, given: pl.DataFrame | None = None, **settings: Any
    ) -> tuple[BuildSummary, Path]:
        rows, chosen = responses(), FORMATS["probability"]
        parts = tuple(rows.slice(start, part).select for start in range(0, len(rows), part))
        folder = tmp_path / f"{name}-{part}"
        target = TARGETS[name].settings(name=name, **settings)
        measured = None if given is None else given.lazy()
        pool = Pool(rows.lazy(), parts, rows.lazy(), asked(rows))
        return build(pool, target, chosen, 0, "pool", folder, evidence=measured), folder

    return run


def test_the_labels_of_all_responses_are_kept(built: Built) -> None:
    summary, folder = built(min_group=2)
    table = pl.read_parquet(folder / "labels.parquet")
    assert dict(table.schema) == LABELS and len(table) == summary.responses == QUESTIONS * SAMPLES
    assert table.select(KEYS).rows() == sorted(responses().select(KEYS).iter_rows())
    for row in table.iter_rows(named=True):
        right = row["correct"]
        q = Fraction(row["successes"], row["rollouts"])
        label = None if row[LABEL[0]] is None else Fraction(row[LABEL[0]], row[LABEL[1]])
        assert label == (q / 2 + Fraction(int(right), 2) if row["reason"] == "ok" else None)
    assert Counter(table.filter(pl.col("reason") != "ok")["reason"]) == summary.filtered
    assert table.filter(pl.col("ending") == "truncated")["correct"].to_list() == [False] * 4


def test_labels_say_which_responses_were_drawn_in_some_draw(built: Built) -> None:
    _, folder = built(redraws=3)
    table, rows = (pl.read_parquet(folder / name) for name in ("labels.parquet", "sft.parquet"))
    drawn = set(table.filter("drawn").select(KEYS).iter_rows())
    assert drawn == set(rows.select(KEYS).iter_rows())
    assert len(drawn) > len(rows.filter(pl.col("draw") == 0))
    assert 0 < len(drawn) < table[LABEL[0]].count()


@pytest.mark.parametrize("settings", [{"redraws": 3}, {"balance": False}, {"samples": 3}])
def test_a_pool_in_many_parts_gives_the_same_files(built: Built, settings: dict[str, Any]) -> None:
    (_, whole), (_, parts) = built(**settings), built(part=7, **settings)
    assert dict(pl.read_parquet_schema(whole / "sft.parquet")) == TRAINING_ROWS
    for name in ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes(), name


def test_a_part_that_is_missing_is_refused(tmp_path: Path) -> None:
    rows = responses()
    settings = TARGETS["csft"].settings(name="csft", balance=False)
    known, fewer = asked(rows), rows.slice(0, 100)
    for pool in (
        Pool(rows.lazy(), (fewer.select,), fewer.lazy(), known),
        Pool(rows.lazy(), (rows.select,), rows.lazy(), known.filter(pl.col("question_id") != "q03")),
    ):
        with pytest.raises(
            InputError, match=r"^x: \d+ graded responses are not among the rollouts; give the"
        ):
            build(pool, settings, FORMATS["probability"], 0, "x", tmp_path)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.evidence])
def test_a_target_without_its_evidence_is_refused_with_the_command_that_gives_it(
    built: Built, name: str
) -> None:
    (needed,) = TARGETS[name].evidence
    said = rf"^pool: the target {name} needs the evidence {needed}; make it with calibsft evidence$"
    with pytest.raises(InputError, match=said):
        built(name)
    with pytest.raises(InputError, match=said):
        built(name, given=evidence().select(KEYS))


def test_evidence_that_does_not_cover_the_responses_is_refused(built: Built) -> None:
    with pytest.raises(InputError, match=r"evidence for the target lovec covers \d+ of 150 responses; make"):
        built("lovec", given=evidence()[5:])


def test_evidence_of_other_row_order_and_integer_width_is_joined_by_key(built: Built) -> None:
    _, folder = built("lovec", given=evidence(), balance=False)
    first = (folder / "labels.parquet").read_bytes()
    built("lovec", given=evidence().reverse().with_columns(pl.col("sample").cast(pl.Int64)), balance=False)
    assert (folder / "labels.parquet").read_bytes() == first


def test_responses_without_a_label_are_counted_and_not_trained_on(built: Built) -> None:
    summary, folder = built("sayself", given=evidence(), balance=False)
    table, rows = (pl.read_parquet(folder / name) for name in ("labels.parquet", "sft.parquet"))
    wrong = table.filter((pl.col("reason") == "ok") & ~pl.col("correct"))
    assert wrong[LABEL[0]].null_count() == summary.filtered["unlabelled"] == len(wrong) > 0
    assert rows["correct"].all() and len(rows) == summary.rows == table[LABEL[0]].count()
    assert json.loads((folder / "targets.json").read_text())["target"] == "sayself"


def test_a_target_that_labels_nothing_is_refused(built: Built) -> None:
    none = evidence().with_columns(pl.lit(None, EXACT).alias("judge-score"))
    with pytest.raises(InputError, match="the target lovec labels none of the 160 responses; choose"):
        built("lovec", given=none)


def test_continuous_labels_are_balanced_by_what_is_written(built: Built) -> None:
    summary, folder = built("uait", given=evidence(), min_group=3)
    rows = pl.read_parquet(folder / "sft.parquet")
    written = Counter(parse(text).value for text in rows["response"])
    assert summary.group_size == 3 and len(written) > 3 and set(written.values()) == {3}
    assert written == summary.after and rows["target"].n_unique() == len(rows)
    assert sum(summary.before.values()) == 150 > sum(summary.after.values())


def test_a_set_balanced_by_what_is_written_stays_so_without_its_long_rows(built: Built) -> None:
    _, folder = built("uait", given=evidence(), min_group=3)
    rows = pl.read_parquet(folder / "sft.parquet")
    kept = rows[balanced_again(rows, range(1, len(rows)), seed=0)]
    assert set(kept.group_by(STRATUM).len()["len"]) == {2}
