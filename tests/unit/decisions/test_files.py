"""What decisions are calibrated on: which rows a file or folder gives, and how two models' responses are joined."""

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.artifacts import StageFolder, file_hash, write_parquet
from calibsft.decisions import certify, route
from calibsft.decisions.files import read_calibration, read_routing
from calibsft.errors import InputError

SAMPLING = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 48, "stop": ["</c>"], "samples": 2}


def csv(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def responses(questions: int = 3, samples: int = 2) -> pl.DataFrame:
    """Every response with a confidence of its own; the last one of each question is wrong."""
    n = questions * samples
    return pl.DataFrame(
        {
            "dataset": ["d"] * n,
            "question_id": [f"q{i // samples}" for i in range(n)],
            "sample": pl.Series([i % samples for i in range(n)], dtype=pl.Int32),
            "grade": ["correct"] * n,
            "correct": [i % samples < samples - 1 for i in range(n)],
            "well_formed": [True] * n,
            "confidence": [i / 100 for i in range(n)],
            "split": ["id"] * n,
        }
    )


def evaluation(folder: Path, rows: pl.DataFrame, tokens: list[int] | None = None) -> Path:
    """A finished evaluation as `calibsft eval` leaves it; the rollouts are in another order than the rows."""
    stage = StageFolder(
        folder, "eval", {"format": "integer", "template": {"thinking": False}, "eval": SAMPLING}, {}
    )
    stage.begin()
    write_parquet(folder / "rows.parquet", rows)
    sampled = rows.select("dataset", "question_id", "sample").with_columns(
        token_ids=pl.Series([list(range(length)) for length in tokens or range(len(rows))])
    )
    write_parquet(folder / "rollouts" / "part-00000.parquet", sampled.reverse().head(2))
    write_parquet(folder / "rollouts" / "part-00001.parquet", sampled.reverse().slice(2))
    stage.finish(model="org/small")
    return folder


def verdicts(folder: Path, rows: pl.DataFrame) -> Path:
    stage = StageFolder(folder, "verify", {"format": "linguistic"}, {})
    stage.begin()
    write_parquet(folder / "part-00000.parquet", rows.drop("split").head(3))
    write_parquet(folder / "part-00001.parquet", rows.drop("split").slice(3))
    stage.finish()
    return folder


def refused(path: Path, strong: Path | None = None, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        read_routing(path, strong, **{"malformed": None, "choice": None, **options})
    return str(error.value)


# One model


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "csv.gz", "jsonl.gz"])
def test_every_kind_of_file_gives_the_same_rows_and_numbers_are_ids_too(tmp_path: Path, ending: str) -> None:
    rows = responses(4, 1).with_columns(question_id=pl.Series([3, 1, 2, 10]))
    plain = tmp_path / f"r.{ending.removesuffix('.gz')}"
    {"csv": rows.write_csv, "jsonl": rows.write_ndjson, "parquet": rows.write_parquet}[plain.suffix[1:]](
        plain
    )
    path = tmp_path / f"r.{ending}"
    if ending.endswith("gz"):
        path.write_bytes(gzip.compress(plain.read_bytes()))
    found = read_calibration(path, None)
    assert found.rows["confidence"].to_list() == [0.0, 0.01, 0.02, 0.03]
    assert found.questions.struct.field("question_id").to_list() == ["3", "1", "2", "10"]
    assert found.known == {"data_hash": file_hash(path)}


def test_the_same_id_in_two_datasets_is_two_questions(tmp_path: Path) -> None:
    path = csv(
        tmp_path / "r.csv", "dataset,question_id,confidence,correct", "a,1,.5,1", "b,1,.6,0", "a,2,.7,1"
    )
    found = read_calibration(path, None)
    assert found.questions.n_unique() == 3
    certificate = certify(found.rows["confidence"], found.rows["correct"], found.questions, 0.5)
    assert certificate.questions == 3
    again = csv(
        tmp_path / "r.csv", "dataset,question_id,confidence,correct", "a,1,.5,1", "b,1,.6,0", "a,1,.7,1"
    )
    found = read_calibration(again, None)
    with pytest.raises(InputError, match=r"question 'a, 1' has several responses \(1 such"):
        certify(found.rows["confidence"], found.rows["correct"], found.questions, 0.5)


def test_without_a_readable_confidence_a_row_is_refused_counted_or_dropped(tmp_path: Path) -> None:
    path = csv(tmp_path / "r.csv", "question_id,confidence,correct", "a,.5,1", "b,high,1", "c,,0", "d,1.5,1")
    with pytest.raises(InputError, match=r"row 2: confidence 'high' is not a number in \[0, 1\].*3 found"):
        read_calibration(path, "error")
    assert read_calibration(path, "counted").rows["confidence"].to_list() == [0.5, None, None, None]
    assert read_calibration(path, "drop").rows["question_id"].to_list() == ["a"]


def test_what_is_not_well_formed_is_not_confident_whatever_it_says(tmp_path: Path) -> None:
    header = "question_id,confidence,correct,well_formed"
    path = csv(tmp_path / "r.csv", header, "a,.9,1,true", "b,.9,1,false", "c,.9,0,0", "d,.8,1,")
    assert read_calibration(path, None).rows["confidence"].to_list() == [0.9, None, None, 0.8]
    assert read_calibration(path, "drop").rows["confidence"].to_list() == [0.9, None, None, 0.8]
    wrong = csv(tmp_path / "w.csv", header, "a,.9,1,true", "b,.9,1,maybe")
    with pytest.raises(InputError, match="row 2: well_formed 'maybe' is neither true nor false"):
        read_calibration(wrong, None)


def test_only_how_a_readable_confidence_is_written_is_not_held_against_a_response(tmp_path: Path) -> None:
    header = "question_id,confidence,correct,well_formed,reason"
    rows = [
        "a,.9,1,false,bad_confidence",
        "b,.9,1,false,stray_text",
        "c,,1,false,bad_confidence",
        "d,.9,1,true,",
    ]
    path = csv(tmp_path / "r.csv", header, *rows)
    expected = [0.9, None, None, 0.9]
    assert read_calibration(path, "counted").rows["confidence"].to_list() == expected
    assert read_calibration(path, "drop").rows["question_id"].to_list() == ["a", "b", "d"]
    both = csv(
        tmp_path / "b.csv",
        header.replace("correct", "local_correct,strong_correct"),
        *(row.replace(",1,", ",1,0,") for row in rows),
    )
    found = read_routing(both, None, "counted", None)
    assert found.rows["confidence"].to_list() == expected
    assert read_routing(both, None, "drop", None).rows["question_id"].to_list() == ["a", "b", "d"]


def test_an_evaluation_gives_model_format_and_sampling_and_counts_what_it_could_not_read(
    tmp_path: Path,
) -> None:
    rows = responses().with_columns(
        confidence=pl.when(pl.col("sample") == 1).then(pl.col("confidence")),
        correct=pl.when(pl.col("question_id") != "q2").then(pl.col("correct")),
    )
    found = read_calibration(evaluation(tmp_path / "e", rows), None)
    # q2 has no readable gold, so nothing is known about its responses
    assert found.rows["question_id"].to_list() == ["q0", "q0", "q1", "q1"]
    assert found.rows["confidence"].to_list() == [None, 0.01, None, 0.03]
    manifest = StageFolder(tmp_path / "e", "eval", {}, {}).manifest()
    assert found.known == {
        "data_hash": manifest["content_hash"],
        "model": "org/small",
        "format": "integer",
        "template": {"thinking": False},
        "sampling": {"temperature": 0.7, "top_p": 0.9, "max_tokens": 48, "stop": ["</c>"]},
    }


def test_a_folder_of_verdicts_gives_its_format(tmp_path: Path) -> None:
    found = read_calibration(verdicts(tmp_path / "v", responses()), None)
    assert found.rows["confidence"].to_list() == [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    assert (found.known["model"], found.known["format"], "sampling" in found.known) == (
        None,
        "linguistic",
        False,
    )


def test_an_unfinished_folder_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "v" / "part-00000.parquet", responses())
    with pytest.raises(
        InputError, match="v: not a finished evaluation or folder of verdicts; run that stage"
    ):
        read_calibration(tmp_path / "v", None)


# Two models in one file

BOTH = "question_id,confidence,local_correct,strong_correct,strong_tokens"


def test_a_file_with_both_models_gives_their_correctness_and_tokens(tmp_path: Path) -> None:
    path = csv(
        tmp_path / "b.csv", BOTH + ",well_formed", "7,.5,yes,0,12,1", "8,.75,no,1,0,1", "9,1,true,1,3.5,0"
    )
    found = read_routing(path, None, None, None)
    columns = ("confidence", "local_correct", "strong_correct", "strong_tokens")
    assert [found.rows[name].to_list() for name in columns] == [
        [0.5, 0.75, None], [True, False, True], [False, True, True], [12, 0, 3.5]
    ]  # fmt: skip
    assert found.questions.struct.field("question_id").to_list() == ["7", "8", "9"]
    assert found.known == {"data_hash": file_hash(path)}


def test_unreadable_rows_of_both_models_are_refused_counted_or_dropped(tmp_path: Path) -> None:
    path = csv(tmp_path / "b.csv", BOTH, "a,.5,1,1,1", "b,no idea,1,1,1", "c,,1,1,1")
    told = refused(path, malformed="error")
    assert "row 2: confidence 'no idea' is not a number" in told and "--malformed counted" in told
    assert "(2 found)" in told
    assert read_routing(path, None, "counted", None).rows["confidence"].to_list() == [0.5, None, None]
    assert read_routing(path, None, "drop", None).rows["question_id"].to_list() == ["a"]


@pytest.mark.parametrize(
    "row, told",
    [
        ("b,.5,maybe,1,1", "row 2: local_correct 'maybe' is neither true nor false (1 such rows)"),
        ("b,.5,1,2,1", "row 2: strong_correct '2' is neither true nor false"),
        ("b,.5,,1,1", "row 2: 'local_correct' is empty (1 such rows)"),
        (",.5,1,1,1", "row 2: 'question_id' is empty"),
        (
            "b,.5,1,1,-1",
            "row 2: strong_tokens '-1' is not a number of tokens (1 such rows); write numbers of 0",
        ),
        ("b,.5,1,1,many", "row 2: strong_tokens 'many' is not a number of tokens"),
        ("b,.5,1,1,", "row 2: strong_tokens '' is not a number of tokens"),
        ("b,.5,1,1,inf", "row 2: strong_tokens 'inf' is not a number of tokens"),
        ("b,.5,1,1,nan", "row 2: strong_tokens 'nan' is not a number of tokens"),
    ],
)
def test_a_wrong_cell_is_refused_by_row_and_column(tmp_path: Path, row: str, told: str) -> None:
    assert told in refused(csv(tmp_path / "b.csv", BOTH, "a,.5,1,1,1", row)).replace("-1.0", "-1")


def test_missing_columns_and_one_models_responses_are_told_apart(tmp_path: Path) -> None:
    missing = csv(tmp_path / "b.csv", "question_id,confidence,local_correct,strong", "a,.5,1,1")
    assert "column 'strong_correct' is missing" in refused(missing)
    one = csv(tmp_path / "o.csv", "question_id,confidence,correct", "a,.5,1")
    for path in (one, evaluation(tmp_path / "e", responses()), verdicts(tmp_path / "v", responses())):
        told = refused(path)
        assert told.startswith(f"{path}: these are one model's responses") and told.endswith("with --strong")
    assert "unknown policy for malformed confidences 'skip'" in refused(one, malformed="skip")
    nested = tmp_path / "n.jsonl"
    nested.write_text(
        '{"question_id": 1, "confidence": 1, "local_correct": 1, "strong_correct": 1, "strong_tokens": [3]}'
    )
    assert "column 'strong_tokens' holds List" in refused(nested)


# The strong model's responses in a file of their own


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return csv(tmp_path / "local.csv", "question_id,confidence,correct", "a,.1,1", "b,.2,0", "c,.3,1")


def test_the_strong_models_file_may_have_any_order_more_questions_and_no_confidence(
    tmp_path: Path, local: Path
) -> None:
    strong = csv(
        tmp_path / "s.csv", "correct,question_id,strong_tokens", "0,c,30", "1,z,1", "1,a,10", "0,b,20"
    )
    found = read_routing(local, strong, None, None)
    rows = found.rows.select("question_id", "confidence", "local_correct", "strong_correct", "strong_tokens")
    assert rows.rows() == [
        ("a", 0.1, True, True, 10.0), ("b", 0.2, False, False, 20.0), ("c", 0.3, True, False, 30.0)
    ]  # fmt: skip
    without = csv(tmp_path / "t.csv", "question_id,correct", "c,0", "a,1", "b,0")
    other = read_routing(local, without, None, None)
    assert "strong_tokens" not in other.rows.columns
    assert other.rows["strong_correct"].to_list() == [True, False, False]
    # what was calibrated on is both files
    assert len({found.known["data_hash"], other.known["data_hash"], file_hash(local)}) == 3


@pytest.mark.parametrize(
    "rows, told",
    [
        (
            ["a,1", "c,1"],
            "question 'b' of {local} is not there (1 such rows); give the strong model's responses",
        ),
        (["a,1", "b,0", "c,1", "b,1"], "question 'b' has several responses (1 such questions)"),
        (["a,1", "b,maybe", "c,1"], "row 2: correct 'maybe' is neither true nor false"),
        (["a,1", "b,", "c,1"], "row 2: 'correct' is empty (1 such rows)"),
        (["a,1", ",1", "c,1"], "row 2: 'question_id' is empty"),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, local: Path, rows: list[str], told: str) -> None:
    assert told.format(local=local) in refused(local, csv(tmp_path / "s.csv", "question_id,correct", *rows))


def test_datasets_are_joined_by_name_and_never_guessed(tmp_path: Path, local: Path) -> None:
    named = csv(tmp_path / "l.csv", "dataset,question_id,confidence,correct", "x,a,.1,1", "y,a,.2,1")
    strong = csv(tmp_path / "s.csv", "dataset,question_id,correct", "y,a,0", "x,a,1")
    assert read_routing(named, strong, None, None).rows["strong_correct"].to_list() == [True, False]
    assert "question 'a' is in several datasets; add a column dataset" in refused(
        local, strong, choice="first"
    )
    unnamed = csv(tmp_path / "u.csv", "question_id,correct", "a,0")
    assert "column 'dataset' is missing" in refused(named, unnamed)
    missing = csv(tmp_path / "m.csv", "dataset,question_id,correct", "x,a,0")
    assert "question 'y, a' of" in refused(named, missing)


def test_an_evaluation_of_the_strong_model_gives_its_tokens(tmp_path: Path) -> None:
    # Three questions, two responses each, so many tokens long; the second response of each is wrong.
    strong = evaluation(tmp_path / "strong", responses().reverse(), [60, 51, 42, 33, 24, 15])
    lengths = {("q2", 1): 60, ("q2", 0): 51, ("q1", 1): 42, ("q1", 0): 33, ("q0", 1): 24, ("q0", 0): 15}
    small = evaluation(tmp_path / "small", responses())
    assert "question 'd, q2' has several responses (3 such questions)" in refused(small, strong)
    found = read_routing(small, strong, None, "first")
    # in this evaluation the second responses come first
    assert found.rows["strong_tokens"].to_list() == [24, 24, 42, 42, 60, 60]
    assert not found.rows["strong_correct"].any()
    drawn = set()
    for seed in range(12):
        rows = read_routing(small, strong, None, "random", seed).rows
        pairs = rows.select("question_id", "strong_correct", "strong_tokens").unique().rows()
        assert len(pairs) == 3 and all(tokens == lengths[name, 1 - right] for name, right, tokens in pairs)
        drawn.add(tuple(sorted(pairs)))
    assert len(drawn) > 3
    assert (found.known["model"], found.known["format"]) == ("org/small", "integer")


def test_unscored_responses_of_the_strong_model_are_left_out(tmp_path: Path) -> None:
    rows = responses().with_columns(correct=pl.when(pl.col("sample") == 1).then(pl.col("correct")))
    strong = evaluation(tmp_path / "strong", rows, [9, 1, 9, 2, 9, 3])
    found = read_routing(evaluation(tmp_path / "small", responses()), strong, None, None)
    assert found.rows["strong_tokens"].to_list() == [1, 1, 2, 2, 3, 3]


def test_random_responses_of_two_models_are_drawn_independently(tmp_path: Path) -> None:
    # The local model is confident in two of four responses, the strong model right in two of four.
    rows = responses(600, 4).with_columns(correct=pl.col("sample") >= 2, confidence=pl.col("sample") / 10)
    rows.write_parquet(tmp_path / "strong.parquet")
    rows.with_columns(correct=False).write_parquet(tmp_path / "local.parquet")
    given = read_routing(tmp_path / "local.parquet", tmp_path / "strong.parquet", None, "random")
    columns = (given.rows[name] for name in ("confidence", "local_correct", "strong_correct"))
    events = route(*columns, given.questions, 0.5, per_question="random").candidates[20].events
    # a quarter of 600, with a standard deviation of 11; draws that go together would make it half
    assert abs(events - 150) < 50
