"""`calibsft plot`: one figure of a run or of files, and one sentence where it cannot be drawn."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.api import plot
from calibsft.artifacts import StageFolder, write_json, write_parquet
from calibsft.errors import InputError
from calibsft.metrics import score_table
from calibsft.report.figures import FIGURES
from calibsft.report.sources import only_benchmark, read_sources
from command import Command

PNG = b"\x89PNG\r\n"


def answers(count: int = 40) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "dataset": ["gsm8k", "drop"] * (count // 2),
            "split": ["id", "ood"] * (count // 2),
            "question_id": [str(number) for number in range(count)],
            "confidence": [0.05 * (number % 20) for number in range(count)],
            "correct": [number % 20 > 9 for number in range(count)],
        }
    )


def evaluation(folder: Path, stage: str, **facts: Any) -> Path:
    """A finished evaluation with one token budget."""
    made = StageFolder(folder, stage, {"seed": 0})
    made.begin()
    scores = score_table(answers())
    write_parquet(folder / "rows.parquet", answers())
    write_json(folder / "metrics.json", scores)
    write_json(folder / "budgets.json", [{"budget": 8, "forced": 0.5, **scores}])
    made.finish(**facts)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    evaluation(tmp_path / "run" / "eval-base", "eval")
    return tmp_path / "run"


def test_a_figure_of_a_run_is_written_where_it_is_asked_for(
    calibsft: Command, run: Path, tmp_path: Path
) -> None:
    assert calibsft("plot", "coverage", run) == (0, "figure: coverage.svg\n", "")
    assert "<svg" in (tmp_path / "coverage.svg").read_text()
    assert calibsft("plot", "budgets", run, "-o", "new/b.PNG", "--theme", "dark")[0] == 0
    assert (tmp_path / "new" / "b.PNG").read_bytes().startswith(PNG)


def test_the_theme_changes_the_colours(calibsft: Command, run: Path, tmp_path: Path) -> None:
    for theme in ("light", "dark"):
        assert calibsft("plot", "reliability", run, "--theme", theme, "-o", f"{theme}.svg")[0] == 0
    light, dark = ((tmp_path / f"{theme}.svg").read_text().lower() for theme in ("light", "dark"))
    assert "#0072b2" in light and "#0072b2" not in dark and "#56b4e9" in dark


@pytest.mark.parametrize(
    "name", ["confidence", "reliability", "reliability-curve", "correlation", "coverage"]
)
def test_files_are_drawn_side_by_side_by_their_names(calibsft: Command, tmp_path: Path, name: str) -> None:
    answers().write_csv(tmp_path / "before.csv")
    answers().write_parquet(tmp_path / "after.v2.parquet")
    assert calibsft("plot", name, "before.csv", "after.v2.parquet")[0] == 0
    text = (tmp_path / f"{name}.svg").read_text()
    assert ">before<" in text and ">after.v2<" in text


def test_runs_are_drawn_side_by_side_with_their_names_before_their_models(
    calibsft: Command, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "again")
    code, _, _ = calibsft("plot", "confidence", "run", "again")
    text = (tmp_path / "confidence.svg").read_text()
    assert code == 0 and "run: eval-base" in text and "again: eval-base" in text


def test_files_of_one_name_are_told_apart_by_their_folder(calibsft: Command, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        answers().write_ndjson(tmp_path / name / "rows.jsonl")
    assert calibsft("plot", "confidence", "one/rows.jsonl", "two/rows.jsonl")[0] == 0
    text = (tmp_path / "confidence.svg").read_text()
    assert ">one/rows<" in text and ">two/rows<" in text


def test_a_bare_file_has_the_figures_that_need_nothing_else(calibsft: Command, tmp_path: Path) -> None:
    answers().select("confidence", "correct").write_csv(tmp_path / "bare.csv")
    assert calibsft("plot", "reliability", "bare.csv")[0] == 0
    code, out, told = calibsft("plot", "coverage", "bare.csv")
    assert code == 2 and out == "" and "nothing there for figure 'coverage'" in told and "question_id" in told


def test_an_evaluation_and_a_folder_of_verdicts_are_models_too(calibsft: Command, tmp_path: Path) -> None:
    evaluation(tmp_path / "eval-a", "eval", label="org/model")
    (tmp_path / "verdicts").mkdir()
    answers().write_parquet(tmp_path / "verdicts" / "part-00000.parquet")
    assert calibsft("plot", "confidence", "eval-a", "verdicts")[0] == 0
    text = (tmp_path / "confidence.svg").read_text()
    assert ">eval-a<" in text and ">verdicts<" in text
    assert calibsft("plot", "budgets", "eval-a")[0] == 0
    (tmp_path / "eval-a" / "manifest.json").unlink()
    code, _, told = calibsft("plot", "budgets", "eval-a")
    assert code == 2 and "not a finished stage" in told


def test_unreadable_confidences_are_refused_if_asked_for(calibsft: Command, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("confidence,correct\n0.5,1\nsure,0\n")
    code, _, told = calibsft("plot", "reliability", "x.csv", "--malformed", "error")
    assert code == 2 and "row 2: confidence 'sure'" in told and "--malformed drop" in told
    assert calibsft("plot", "reliability", "x.csv", "--malformed", "counted")[0] == 0


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("reliablity", "run"), "unknown figure 'reliablity'; did you mean 'reliability'?"),
        (("targets", "run"), "run: nothing there for figure 'targets'; it needs a training set"),
        (
            ("coverage", "run", "-o", "x.pdf"),
            "x.pdf: unknown kind of picture '.pdf'; end the name in .svg or .png",
        ),
        (("coverage", "run", "-o", "x"), "x: unknown kind of picture ''; end the name in .svg or .png"),
        (("coverage", "run", "--theme", "blue"), "unknown theme 'blue' (known: light, dark)"),
        (("coverage", "run", "-o", "/proc/none/x.svg"), "/proc/none/x.svg: cannot be written"),
        (("coverage", "nothing.csv"), "nothing.csv: no such file"),
        (("coverage", "empty"), "empty: no finished evaluation there"),
        (("coverage",), "Missing argument"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_one_sentence(
    calibsft: Command, run: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    code, out, told = calibsft("plot", *arguments)
    assert code == 2 and out == "" and told.startswith(f"calibsft: {sentence}") and told.count("\n") == 1
    assert not list(tmp_path.glob("*.svg*"))


def test_figures_are_listed_with_one_line_each(calibsft: Command) -> None:
    code, out, _ = calibsft("ls", "figures")
    lines = out.splitlines()[1:]
    assert code == 0 and [line.split()[0] for line in lines] == list(FIGURES)
    assert all(len(line) <= 120 and len(line.split()) > 4 for line in lines)


def test_help_shows_examples(calibsft: Command) -> None:
    code, out, _ = calibsft("plot", "--help")
    assert code == 0 and "calibsft plot coverage runs/tiny-seed0 -o coverage.png" in " ".join(out.split())


def test_single_benchmarks_are_drawn_from_their_own_responses(
    calibsft: Command, run: Path, tmp_path: Path
) -> None:
    """The same picture as from a file that holds nothing else, but for the name of the benchmark above it."""
    for name in ("gsm8k", "drop"):
        answers().filter(dataset=name).write_csv(tmp_path / f"{name}.csv")
        (tmp_path / "alone").mkdir(exist_ok=True)
        (tmp_path / f"{name}.csv").rename(tmp_path / "alone" / "eval-base.csv")
        for figure in ("reliability", "reliability-curve", "confidence", "coverage"):
            options = ("--benchmark", name, "-o", "own.svg")
            assert calibsft("plot", figure, run, *options)[0] == 0
            own = (tmp_path / "own.svg").read_bytes()
            assert calibsft("plot", figure, "alone/eval-base.csv", *options)[0] == 0
            assert own == (tmp_path / "own.svg").read_bytes()
            assert name.encode() in own
            assert calibsft("plot", figure, run, "-o", "all.svg")[0] == 0
            assert (
                own != (tmp_path / "all.svg").read_bytes()
                and name.encode() not in (tmp_path / "all.svg").read_bytes()
            )


def test_the_budgets_of_a_benchmark_are_its_own_figures(run: Path) -> None:
    scores = score_table(answers())
    whole = read_sources([run])
    for name in ("gsm8k", "drop"):
        (model,) = only_benchmark(whole, name).models
        assert model.budgets is not None
        own = scores["datasets"][name]
        assert model.budgets.rows() == [(8, own["pass@1"], own["ece"]), (None, own["pass@1"], own["ece"])]
        assert model.rows["dataset"].unique().to_list() == [name]


def test_a_benchmark_that_is_not_there_is_refused_with_the_nearest_name(calibsft: Command, run: Path) -> None:
    code, _, told = calibsft("plot", "reliability", run, "--benchmark", "gsm8")
    assert code == 2 and "unknown benchmark 'gsm8'; did you mean 'gsm8k'? (known: drop, gsm8k)" in told


def test_a_figure_of_no_single_benchmark_says_so(calibsft: Command, run: Path) -> None:
    code, _, told = calibsft("plot", "correlation", run, "--benchmark", "gsm8k")
    assert (
        code == 2 and "figure 'correlation' is not drawn of a single benchmark; leave --benchmark out" in told
    )


def test_a_model_that_did_not_answer_the_benchmark_is_left_out(calibsft: Command, tmp_path: Path) -> None:
    answers().write_csv(tmp_path / "both.csv")
    answers().filter(dataset="drop").write_csv(tmp_path / "drop.csv")
    assert calibsft("plot", "reliability", "both.csv", "drop.csv", "--benchmark", "gsm8k")[0] == 0
    assert "both" in (picture := (tmp_path / "reliability.svg").read_text()) and ">drop" not in picture


def test_python_draws_the_same_picture_and_a_notebook_shows_it(calibsft: Command, tmp_path: Path) -> None:
    answers().write_csv(tmp_path / "mine.csv")
    assert calibsft("plot", "reliability", "mine.csv", "-o", "command.png")[0] == 0
    drawn = plot("reliability", "mine.csv", out="python.png")
    assert drawn._repr_png_() == Path(drawn).read_bytes() == Path("command.png").read_bytes()
    assert drawn._repr_svg_() is None and str(drawn) == "python.png"
    also = plot("reliability", "mine.csv", out="python.svg", theme="dark")
    assert also._repr_png_() is None and "<svg" in (also._repr_svg_() or "")
    with pytest.raises(InputError, match="unknown figure 'reliablity'; did you mean 'reliability'"):
        plot("reliablity", "mine.csv", out="python.png")
