"""Scores of whole tables and files: pooling, means over datasets, unreadable confidences, refusals."""

from pathlib import Path

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.files.cells import confidence_column
from calibsft.metrics import ECE_CONVENTION, METRICS, evaluate, score_file, score_table
from calibsft.metrics.result import Scores

ROWS = pl.DataFrame(
    {
        "dataset": ["a", "a", "a", "b", "b", "c", "c"],
        "split": ["id", "id", "id", "id", "id", "ood", "ood"],
        "question_id": ["1", "1", "2", "1", "2", "1", "2"],
        "confidence": [0.9, None, 0.2, 0.8, 0.3, 0.6, 0.7],
        "correct": [True, True, False, True, False, True, True],
    }
)


def metrics_of(rows: pl.DataFrame) -> dict[str, object]:
    return evaluate(rows["confidence"], rows["correct"], rows["question_id"])


def test_an_unreadable_confidence_counts_as_zero_and_the_rest_stands_beside_it() -> None:
    part = ROWS.filter(pl.col("dataset") == "a")
    found = score_table(ROWS)["datasets"]["a"]
    excluded, unreadable = found.pop("excluded"), found.pop("unreadable")
    assert found == metrics_of(part.with_columns(pl.col("confidence").fill_null(0.0)))
    assert unreadable == pytest.approx(1 / 3)
    readable = metrics_of(part.drop_nulls())
    assert excluded == {key: readable[key] for key in ("n", "brier", "ece", "auroc")}


def test_without_unreadable_confidences_there_is_no_second_policy() -> None:
    found = score_table(ROWS)["datasets"]["b"]
    assert found.pop("unreadable") == 0
    assert found == metrics_of(ROWS.filter(pl.col("dataset") == "b"))


def test_nothing_readable_is_scored_without_a_crash() -> None:
    found = score_table(pl.DataFrame({"confidence": [None, None], "correct": [True, False]}))["overall"]
    assert (found["unreadable"], found["brier"], found["pass@1"]) == (1, 0.5, 0.5)
    assert found["excluded"] == {"n": 0, "brier": None, "ece": None, "auroc": None}


def test_split_figures_are_plain_means_over_datasets() -> None:
    score = score_table(ROWS)
    a, b, c = (score["datasets"][name] for name in "abc")
    splits = score["splits"]
    assert set(splits) == {"id", "ood", "mean over datasets"}
    for name in (*(set(METRICS) - {"auroc"}), "unreadable"):
        assert splits["id"][name] == pytest.approx((a[name] + b[name]) / 2)
        assert splits["mean over datasets"][name] == pytest.approx((a[name] + b[name] + c[name]) / 3)
    assert splits["id"]["excluded"]["brier"] == pytest.approx((a["excluded"]["brier"] + b["brier"]) / 2)
    assert splits["id"]["excluded"]["n"] == 4
    assert "excluded" not in splits["ood"]


def test_a_dataset_of_one_class_is_left_out_of_the_auroc_mean() -> None:
    score = score_table(ROWS)
    everything = score["splits"]["mean over datasets"]
    assert (everything["datasets"], everything["auroc_datasets"], everything["n"]) == (3, 2, 7)
    assert everything["auroc"] == score["splits"]["id"]["auroc"] == pytest.approx((0.5 + 1) / 2)
    assert (score["splits"]["ood"]["auroc"], score["splits"]["ood"]["auroc_datasets"]) == (None, 0)


def test_pooled_ece_is_that_of_all_rows_together() -> None:
    score = score_table(ROWS)
    counted = ROWS.with_columns(pl.col("confidence").fill_null(0.0))
    assert score["splits"]["mean over datasets"]["ece_pooled"] == score["overall"]["ece"]
    assert score["overall"]["ece"] == metrics_of(counted)["ece"]
    assert score["splits"]["id"]["ece_pooled"] == metrics_of(counted.filter(split="id"))["ece"]


def test_the_result_has_the_keys_of_its_type() -> None:
    score = score_table(ROWS, intervals=True)
    assert Scores.__required_keys__ == set(score)
    always = {"n", "ece_convention", "unreadable", "intervals", *METRICS}
    of_splits = {"datasets", "auroc_datasets", "ece_pooled", "pearson", "spearman"}
    for others, parts in (
        ({"questions"}, [score["overall"], *score["datasets"].values()]),
        (of_splits, score["splits"].values()),
    ):
        for part in parts:
            unread = {"excluded"} if part["unreadable"] else set()
            assert set(part) == always | others | unread
            assert part["ece_convention"] == ECE_CONVENTION


def test_the_same_question_id_in_two_datasets_is_two_questions() -> None:
    assert score_table(ROWS)["overall"]["questions"] == 6


def test_a_table_without_datasets_has_only_the_pooled_score() -> None:
    score = score_table(ROWS.select("confidence", "correct"))
    assert (score["datasets"], score["splits"]) == ({}, {})
    assert score["overall"]["n"] == 7


def test_a_dataset_in_two_splits_and_an_unnamed_one_are_refused() -> None:
    with pytest.raises(InputError, match="dataset 'a' is in the splits id and ood"):
        score_table(ROWS.with_columns(dataset=pl.lit("a")))
    with pytest.raises(InputError, match="row 1: 'dataset' is empty"):
        score_table(ROWS.with_columns(dataset=pl.lit(None, dtype=pl.String)))


def test_single_precision_columns_keep_their_decimals() -> None:
    rows = pl.DataFrame({"confidence": [0.7, None], "correct": [True, True]})
    narrow = rows.with_columns(pl.col("confidence").cast(pl.Float32))
    assert score_table(narrow) == score_table(rows)


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "inf",
        "1_0",
        "٠.٥",
        "",
        "-0.1",
        "+0.5",
        "1.5",
        "0.5\n",
        " 0.5",
        "0x1",
        ".",
        "-.5",
        "1e400",
        "0,5",
        "50%",
    ],
)
def test_text_that_is_no_plain_decimal_in_range_is_not_read(text: str) -> None:
    assert confidence_column(pl.Series("confidence", ["0.5", text])).to_list() == [0.5, None]


@pytest.mark.parametrize(
    "text", ["0", "1", "1.", ".5", "-0.0", "0.37", "1.00", "00.5", "5e-1", "25E-2", "1.0e+00", "1e-400"]
)
def test_plain_decimals_are_read_as_python_reads_them(text: str) -> None:
    assert confidence_column(pl.Series("confidence", [text, "x"])).to_list() == [float(text), None]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_bad_confidence_is_refused_with_file_row_and_way_out(tmp_path: Path) -> None:
    good = '{"confidence": "0.5", "correct": 1}\n'
    bad = '{"confidence": "nan", "correct": 1}\n'
    path = write(tmp_path, "pool.jsonl", good * 16 + bad + good + bad * 2)
    with pytest.raises(InputError) as error:
        score_file(path, "error")
    assert str(error.value) == (
        f"{path}, row 17: confidence 'nan' is not a number in [0, 1];"
        " run with --malformed drop to skip such rows (3 found)"
    )


def test_the_complaint_carries_no_terminal_sequence_and_is_short(tmp_path: Path) -> None:
    path = write(tmp_path, "pool.csv", "confidence,correct\n\x1b[2J" + "9" * 500 + ",1\n")
    with pytest.raises(InputError) as error:
        score_file(path, "error")
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 200 + len(str(path))


@pytest.mark.parametrize("cell", ["", "NaN", "nan", "inf", "1.2", "-1", "x"])
def test_csv_cells_that_are_no_confidence_follow_the_policy(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, "pool.csv", f"confidence,correct\n0.9,1\n{cell},1\n0.2,0\n")
    with pytest.raises(InputError, match=r"row 2: .* \(1 found\)"):
        score_file(path, "error")
    dropped, counted = score_file(path, "drop"), score_file(path, "counted")
    assert (dropped["overall"]["n"], dropped["dropped"], dropped["overall"]["unreadable"]) == (2, 1, 0)
    assert (counted["overall"]["n"], counted["dropped"]) == (3, 0)
    assert counted["overall"]["unreadable"] == pytest.approx(1 / 3)
    assert counted["overall"]["brier"] == evaluate([0.9, 0, 0.2], [1, 1, 0])["brier"]


def test_all_file_types_give_the_scores_of_the_table(tmp_path: Path) -> None:
    rows = ROWS.drop_nulls()
    rows.write_csv(tmp_path / "pool.csv")
    rows.write_ndjson(tmp_path / "pool.jsonl")
    rows.write_parquet(tmp_path / "pool.parquet")
    for name in ("pool.csv", "pool.jsonl", "pool.parquet"):
        assert score_file(tmp_path / name) == {**score_table(rows), "dropped": 0}


def test_boolean_or_nested_confidences_are_malformed(tmp_path: Path) -> None:
    for value in ("true", "[0.5]"):
        path = write(tmp_path, "pool.jsonl", f'{{"confidence": {value}, "correct": 1}}\n')
        with pytest.raises(InputError, match="row 1: confidence"):
            score_file(path, "error")
        with pytest.raises(InputError, match="no row has a readable confidence"):
            score_file(path, "drop")


@pytest.mark.parametrize(
    "header, complaint",
    [
        ("confidance,correct", "column 'confidence' is missing, but 'confidance' is there"),
        ("confidence,right", "column 'correct' is missing"),
    ],
)
def test_a_missing_column_is_named(tmp_path: Path, header: str, complaint: str) -> None:
    path = write(tmp_path, "pool.csv", f"{header}\n0.5,1\n")
    with pytest.raises(InputError, match=complaint):
        score_file(path)


def test_empty_ids_and_unknown_policies_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "pool.csv", "confidence,correct,dataset\n0.5,1,a\n0.5,1,\n")
    with pytest.raises(InputError, match="row 2: 'dataset' is empty"):
        score_file(path)
    with pytest.raises(InputError, match="did you mean 'drop'"):
        score_file(path, "dropp")
