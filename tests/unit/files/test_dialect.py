"""Files of other programs: their names for our columns, and their scales of confidence."""

import gzip
import json
from fractions import Fraction
from pathlib import Path
from random import Random

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.files.dialect import OURS, Dialect, column_pairs
from calibsft.files.reading import batches, read_columns, read_table
from calibsft.files.scales import SCALES, ScaleGuess
from calibsft.metrics.files import ScoredFile

THEIRS = [
    {"qid": "007", "prob": "85", "is_correct": "1", "key": "3"},
    {"qid": "7", "prob": "12.3", "is_correct": "0", "key": "0.5"},
]
DIALECT = Dialect.of(["question_id=qid,confidence=prob", "correct=is_correct", "gold=key"], "percent")


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    frame = pl.DataFrame(rows)
    if path.name.endswith(".parquet"):
        frame.write_parquet(path)
    elif path.name.endswith(".csv"):
        frame.write_csv(path)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


FILES = pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz", "a.parquet"])


@FILES
def test_columns_and_scale_are_theirs_in_every_kind_of_file(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, THEIRS)
    scored = ScoredFile(path, "error", dialect=DIALECT).read()
    assert scored["confidence"].to_list() == [0.85, 0.123]
    assert scored["correct"].to_list() == [True, False]
    assert scored["question_id"].to_list() == ["007", "7"]


@FILES
def test_a_whole_table_keeps_their_columns_beside_ours(tmp_path: Path, name: str) -> None:
    table = read_table(written(tmp_path / name, THEIRS), ["question_id"], dialect=DIALECT)
    assert {*THEIRS[0], "question_id", "confidence", "correct", "gold"} == set(table.columns)
    # Their names stand for texts of ours, so 007 and 3 stay as they are written.
    assert table["question_id"].to_list() == ["007", "7"] and table["gold"].to_list() == ["3", "0.5"]


def test_numbers_under_their_name_of_a_text_column_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"key": ["3"], "qid": 7}\n{"key": "0.50", "qid": 8}\n')
    table = read_table(path, dialect=Dialect.of({"gold": "key", "question_id": "qid"}))
    assert table["gold"].to_list() == [["3"], ["0.50"]]


def test_two_columns_may_swap_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [{"confidence": "1", "correct": "0.3"}])
    swapped = Dialect.of(["confidence=correct,correct=confidence"])
    assert read_columns(path, ["confidence", "correct"], dialect=swapped).rows() == [("0.3", "1")]


def test_one_column_may_be_read_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [{"task": "math", "p": "0.5"}])
    dialect = Dialect.of({"dataset": "task"})
    [batch] = batches(path, ["dataset", "task"], dialect=dialect)
    assert batch.rows.rows() == [("math", "math")] and batch.present == {"dataset", "task"}


def test_folders_of_stages_have_our_names(tmp_path: Path) -> None:
    assert DIALECT.at(tmp_path) == OURS
    with pytest.raises(InputError, match="--columns and --scale are for files"):
        Dialect.of(["correct=x"], sources=[tmp_path])
    assert Dialect.of(["correct=x"], sources=[tmp_path, tmp_path / "a.csv"])


def test_a_comma_in_a_name_does_not_part_it() -> None:
    assert column_pairs(["confidence=P(yes, no),correct=a=b"]) == (
        ("confidence", "P(yes, no)"),
        ("correct", "a=b"),
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("is_correct=correct", "write our name on the left"),
        ("confidence", "is no pair of names"),
        ("confidence=", "is no pair of names"),
        ("confidence=a,confidence=b", "names 'confidence' twice"),
    ],
)
def test_wrong_pairs_are_refused(given: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Dialect.of([given])


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(InputError, match="unknown scale 'percents'; did you mean 'percent'"):
        Dialect.of(scale="percents")


# Scales


def test_percentages_become_the_nearest_float_to_their_exact_value() -> None:
    random = Random(0)
    texts = [
        f"{random.randint(0, 100 * 10**places) / 10**places:.{places}f}"
        for places in range(9)
        for _ in "12345"
    ]
    read = SCALES["percent"].read(pl.Series("confidence", texts))
    assert read.to_list() == [float(Fraction(text) / 100) for text in texts]
    numbers = SCALES["percent"].read(pl.Series("confidence", list(map(float, texts))))
    assert numbers.to_list() == read.to_list()


def test_percent_reads_signs_and_exponents_and_nothing_else() -> None:
    cells = ["85%", "85 %", " 7 ", "1e1", "1.5E-1%", "100.1", "-1", "%", "nan", "٨٥", "", None]
    read = SCALES["percent"].read(pl.Series("confidence", cells)).to_list()
    assert read == [0.85, 0.85, 0.07, 0.1, 0.0015, *[None] * 7]


def test_single_precision_percentages_are_the_decimals_that_were_meant() -> None:
    cells = pl.Series("confidence", [12.3, 70.1], dtype=pl.Float32)
    assert SCALES["percent"].read(cells).to_list() == [0.123, 0.701]


@pytest.mark.parametrize("cells", [["0", "7", "9", "10", "7.5"], [0.0, 7.0, 9.0, 10.0, 7.5]])
def test_digits_are_ninths(cells: list[object]) -> None:
    read = SCALES["digit"].read(pl.Series("confidence", cells)).to_list()
    assert read == [0.0, float(Fraction(7, 9)), 1.0, None, None]


@pytest.mark.parametrize(
    ("cells", "scale"),
    [
        ([85, 12, 100, 0], "percent"),
        ([85.5, 0.5, 99.0], "percent"),
        (["85%", "3%", "no"], "percent"),
        ([7, 9, 0, 3], "digit"),
        (["7", "9.0", "1"], "digit"),
        (["7%", "3%"], "percent"),
        ([0.7, 0.9, 85, 1.0], None),
        ([85, 101, 70], None),
        ([85, -1, 70], None),
        ([0.1, 0.2], None),
        (["high", "low"], None),
    ],
)
def test_a_scale_is_recognised_by_what_most_numbers_are(cells: list[object], scale: str | None) -> None:
    raw, seen = pl.Series("confidence", cells, strict=False), ScaleGuess()
    for part in (raw[:1], raw[1:]):  # as batches come
        seen.add(part, SCALES["probability"].read(part))
    assert seen.scale == scale


# Complaints


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (
            {"prob": "0.5", "correct": "1"},
            "column 'confidence' is missing, but 'prob' is there; add --columns confidence=prob",
        ),
        (
            {"P(True)": "0.5", "Is-Correct": "1"},
            "columns 'confidence' and 'correct' are missing, but 'P(True)' and 'Is-Correct' are there;"
            " add --columns 'confidence=P(True),correct=Is-Correct'",
        ),
        (
            {"score": "0.5", "label": "1"},
            "columns 'confidence' and 'correct' are missing, but 'score' and 'label' are there;"
            " add --columns confidence=score,correct=label",
        ),
        (
            {"confidance": "0.5", "correct": "1"},
            "column 'confidence' is missing, but 'confidance' is there; add --columns confidence=confidance",
        ),
        (
            {"certain": "0.5", "correct": "1"},
            "column 'confidence' is missing; the file needs confidence, correct and has certain, correct",
        ),
        ({"confidence": "85", "correct": "1"}, "looks like percentages, 1 of 1 numbers being above 1; add --scale percent"),
        ({"confidence": "7", "correct": "1"}, "looks like digits, 1 of 1 numbers being above 1; add --scale digit"),
    ],
)  # fmt: skip
@FILES
def test_a_complaint_names_the_option_that_mends_it(
    tmp_path: Path, name: str, rows: dict[str, str], complaint: str
) -> None:
    path = written(tmp_path / name, [rows])
    with pytest.raises(InputError) as caught:
        ScoredFile(path, None).read()
    assert str(caught.value).startswith(f"{path}: ") and complaint in str(caught.value)


@FILES
def test_an_option_that_names_no_column_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, THEIRS)
    dialect = Dialect.of(["confidence=prob,correct=is_correct,question_id=qids"], "percent")
    for read in (
        lambda: ScoredFile(path, None, dialect=dialect).read(),
        lambda: read_table(path, dialect=dialect),
    ):
        with pytest.raises(
            InputError, match="'qids' of --columns question_id=qids is missing; did you mean 'qid'"
        ):
            read()


def test_a_scale_that_was_said_is_believed(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.csv", [{"confidence": "85", "correct": "1"}, {"confidence": "1", "correct": "1"}]
    )
    said = Dialect.of(scale="probability")
    assert ScoredFile(path, "counted", dialect=said).read()["confidence"].to_list() == [None, 1.0]
    with pytest.raises(InputError, match="row 1: confidence '85' is not a number in"):
        ScoredFile(path, "error", dialect=said).read()


def test_a_cell_beyond_the_scale_is_named_by_its_row(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.csv", [{"confidence": "85", "correct": "1"}, {"confidence": "101", "correct": "1"}]
    )
    with pytest.raises(InputError, match="row 2: confidence '101' is not a percentage from 0 to 100"):
        ScoredFile(path, "error", dialect=Dialect.of(scale="percent")).read()


def test_a_column_of_the_users_own_is_never_an_option(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [{"confidence": "0.5", "correct": "1", "model": "m"}])
    with pytest.raises(InputError, match=r"column 'modle' is missing \(there is 'model': rename it\)"):
        ScoredFile(path, None, by="modle").read()


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    name = "prob\x1b[31m"
    path.write_text(json.dumps({name: 0.5, "correct": 1}) + "\n")
    dialect = Dialect.of({"confidence": name})
    assert ScoredFile(path, "error", dialect=dialect).read()["confidence"].to_list() == [0.5]
