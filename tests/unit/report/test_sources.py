"""What reports and figures are made from: runs, evaluations and users' files, alone or side by side."""

from pathlib import Path

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import MEAN_OVER_DATASETS, score_table
from calibsft.report.comparisons import difference_tables
from calibsft.report.figures import FIGURES
from calibsft.report.inspector import pack
from calibsft.report.page import write_page
from calibsft.report.responses import choose_questions, evaluated_responses
from calibsft.report.runs import read_evaluation
from calibsft.report.sources import read_sources
from calibsft.report.tables import headline_tables
from command import Command


def frame(confidence: float, questions: int = 30) -> pl.DataFrame:
    count = 2 * questions
    return pl.DataFrame(
        {
            "question_id": [str(i // 2) for i in range(count)],
            "confidence": [confidence, 0.5] * questions,
            "correct": [i % 4 < 2 for i in range(count)],
            "response": [f"<answer>{i}</answer>" for i in range(count)],
            "question": [f"what is {i // 2}" for i in range(count)],
            "gold": [str(i // 2) for i in range(count)],
        }
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "before.parquet", tmp_path / "after.csv"
    frame(0.9).write_parquet(paths[0])
    frame(0.2).write_csv(paths[1])
    return paths


def test_files_become_models_of_one_dataset_with_their_responses(files: tuple[Path, Path]) -> None:
    summary = read_sources(files, responses=1000)
    assert [model.label for model in summary.models] == [
        "before",
        "after",
    ] and summary.name == "before, after"
    assert summary.command == f"calibsft report {files[0]} {files[1]}"
    for model, said in zip(summary.models, summary.responses, strict=True):
        assert model.rows["dataset"].unique().to_list() == ["all"] and said.label == model.label
        assert said.rows.height == said.total == 60
        assert said.questions.sort("question_id").row(0) == ("all", "0", "what is 0", ["0"])
    assert summary.responses[0].rows["sample"].to_list() == [0, 1] * 30
    assert summary.responses[0].rows["answer"].to_list()[:2] == ["0", "1"], "read from the responses"


def test_responses_without_benchmarks_are_not_called_a_benchmark(files: tuple[Path, Path]) -> None:
    (table,) = headline_tables(["before"], [score_table(read_sources(files[:1]).models[0].rows)])
    assert table.title == "All responses"


def test_files_are_compared_with_the_first_where_they_share_questions(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    assert [model.counterpart for model in read_sources(files).models] == ["", "before"]
    (table,) = difference_tables(read_sources(files).models, [MEAN_OVER_DATASETS])
    assert table.title == "Differences, all benchmarks" and table.rows[0][0].text == "after − before"
    other = tmp_path / "other.csv"
    frame(0.2).with_columns(question_id=pl.lit("x") + pl.col("question_id")).write_csv(other)
    assert difference_tables(read_sources([files[0], other]).models, [MEAN_OVER_DATASETS]) == []
    frame(0.2).drop("question_id").write_csv(other)
    assert difference_tables(read_sources([files[0], other]).models, [MEAN_OVER_DATASETS]) == []


def test_empty_cells_and_lists_of_golds_are_read(tmp_path: Path) -> None:
    rows = frame(0.9, questions=2).with_columns(
        gold=pl.Series([["1", "one"], None, ["2"], ["2"]]), response=pl.Series([None, "b", "c", "d"])
    )
    rows.with_columns(question=pl.lit(None, pl.String)).write_parquet(tmp_path / "f.parquet")
    (said,) = read_sources([tmp_path / "f.parquet"], responses=10).responses
    assert said.rows["response"].to_list() == ["", "b", "c", "d"]
    assert said.questions.rows() == [("all", "0", "", ["1", "one"]), ("all", "1", "", ["2"])]
    assert pack([said]) is not None


def test_responses_stay_beside_their_scores_where_rows_are_left_out(tmp_path: Path) -> None:
    rows = frame(0.9, questions=3).with_columns(
        confidence=pl.Series(["0.1", "none", "0.3", "0.4", "", "0.6"]),
        correct=pl.Series([True, True, None, False, True, True]),
        grade=pl.lit("correct"),
    )
    rows.write_csv(tmp_path / "f.csv")
    (said,) = read_sources([tmp_path / "f.csv"], "drop", responses=10).responses
    found = said.rows.select("confidence", "response").rows()
    assert found == [(0.1, "<answer>0</answer>"), (0.4, "<answer>3</answer>"), (0.6, "<answer>5</answer>")]


def test_a_file_without_responses_has_nothing_to_read(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    frame(0.9).drop("response").write_csv(path)
    assert read_sources([path], responses=1000).responses == ()
    frame(0.9).write_csv(path)
    unread = read_sources([path], responses=0)
    assert unread.responses == () and "response" not in unread.models[0].rows.columns, (
        "texts are left in the file"
    )


def test_the_report_of_files_is_one_page(calibsft: Command, files: tuple[Path, Path], tmp_path: Path) -> None:
    code, out, _ = calibsft("report", *files, "-o", "both.html")
    page = (tmp_path / "both.html").read_text()
    assert code == 0 and out == "report: both.html\n"
    assert not (tmp_path / "figures").exists() and "before" in page and "after" in page
    code, out, _ = calibsft("report", files[0], "-o", tmp_path / "folder", "--responses", "0")
    assert code == 0 and (tmp_path / "folder" / "figures" / "reliability-dark.png").is_file()
    assert "responses-index" not in (tmp_path / "folder" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "nowhere: no such run folder or file; calibsft run makes one"),
        (["."], ".: no finished evaluation there; give the folder of a run"),
        (["notes.txt"], "unknown file type '.txt'; use .csv, .jsonl or .parquet"),
        (["bad.csv", "--malformed", "error"], "bad.csv, row 1: confidence 'high' is not a number in [0, 1]"),
        (["good.csv", "-o", "good.csv/report"], "good.csv/report"),
    ],
)
def test_what_cannot_be_reported_is_told_in_one_sentence(
    calibsft: Command, tmp_path: Path, words: list[str], complaint: str
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "bad.csv").write_text("confidence,correct\nhigh,1\n")
    (tmp_path / "good.csv").write_text("confidence,correct\n0.5,1\n0.5,0\n")
    code, out, err = calibsft("report", *words)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


def test_whole_questions_are_chosen_evenly_within_both_limits() -> None:
    rows = pl.LazyFrame(
        {"dataset": "d", "question_id": [f"{i // 4:03d}" for i in range(400)], "bytes": [10] * 400}
    )
    everything = choose_questions(rows, 1000, 10**9)
    assert everything["question_id"].to_list() == [f"{i:03d}" for i in range(100)]
    assert choose_questions(rows, 40, 10**9)["question_id"].to_list()[::9] == ["000", "099"]
    assert choose_questions(rows, 1000, 800).height == 20
    assert choose_questions(rows, 1, 1).height == 1


def test_several_models_show_the_same_questions(tmp_path: Path) -> None:
    for name, confidence in (("a", 0.9), ("b", 0.2)):
        folder = tmp_path / name
        (folder / "rollouts").mkdir(parents=True)
        rows = frame(confidence).with_columns(
            dataset=pl.lit("d"), sample=pl.Series([0, 1] * 30), answer=pl.lit("1"), reason=pl.lit("ok")
        )
        rows.write_parquet(folder / "rows.parquet")
        asked = rows.select("dataset", "question_id", "question", gold=pl.concat_list("gold")).unique(
            maintain_order=True
        )
        asked.write_parquet(folder / "rollouts" / "questions.parquet")
    found = evaluated_responses([("a", tmp_path / "a"), ("b", tmp_path / "b")], most=24)
    shown = [set(said.rows["question_id"]) for said in found]
    assert shown[0] == shown[1] and len(shown[0]) == 6
    assert [(said.rows.height, said.total, said.questions.height) for said in found] == [(12, 60, 6)] * 2
    packed = pack(found)
    assert (packed.shown, packed.total) == (24, 120)
    assert pack([]) is None


def test_the_texts_of_an_evaluation_are_not_read_for_its_tables(tmp_path: Path) -> None:
    frame(0.9).write_parquet(tmp_path / "rows.parquet")
    rows = read_evaluation(tmp_path, "model").rows
    assert rows.columns == [name for name in frame(0.9).columns if name != "response"] and len(rows) == 60


def test_an_unfinished_evaluation_is_refused(tmp_path: Path) -> None:
    frame(0.9).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="not a finished stage"):
        read_sources([tmp_path])


def test_a_report_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("question_id,confidence,correct\n1,0.5,1\n2,0.9,0\n3,0.2,0\n")
    write_page(read_sources([tmp_path / "a.csv"]), tmp_path / "a.html")
    shown = capsys.readouterr()
    parts = len(FIGURES) + 3
    assert shown.out == "" and shown.err.startswith(f"report: {parts}/{parts} parts, ")
