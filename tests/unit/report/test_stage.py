"""`calibsft report RUN` writes the report of a run anew and leaves the run as whole as it was."""

from pathlib import Path

import pytest

from calibsft.artifacts import read_manifest
from command import Command

SETTINGS = (
    "device=cpu", "pipelines=[[]]", "eval.benchmarks=[cross, multiply-1]", "eval.limit=4", "eval.samples=3",
    "eval.max_new_tokens=30", "jobs=1",
)  # fmt: skip
PAGE = Path("run/report/report.html")


@pytest.fixture
def run(calibsft: Command, short_base: Path) -> tuple[object, ...]:
    """The command of a run that evaluates a model, done once in folder run."""
    changes = [word for setting in (f"model={short_base}", *SETTINGS) for word in ("--set", setting)]
    command = ("run", "tiny", "--out", "run", *changes)
    code, _, err = calibsft(*command)
    assert code == 0, err
    return command


@pytest.mark.parametrize("out", [(), ("-o", "run/report"), ("-o", "./run/../run/report/")])
def test_a_run_goes_on_after_its_report_was_written_anew(
    calibsft: Command, run: tuple[object, ...], out: tuple[str, ...]
) -> None:
    before = PAGE.read_bytes()
    code, told, err = calibsft("report", "run", "--responses", "0", *out)
    assert code == 0 and told.endswith("report/report.html\n"), err
    assert PAGE.read_bytes() != before, "it has no responses to read"
    assert read_manifest(Path("run/report"))["files"].keys() >= {"report.html", "report.md"}
    code, _, err = calibsft(*run)
    assert code == 0 and "report: done before, skipped" in err


def test_a_report_of_something_else_does_not_take_the_place_of_a_run_s_own(
    calibsft: Command, run: tuple[object, ...]
) -> None:
    before = PAGE.read_bytes()
    for words in (
        ("run", "run/eval-base", "-o", "run/report"),
        ("run/eval-base", "-o", "run/report"),
        ("run", "-o", "run/report/report.html"),
    ):
        code, _, err = calibsft("report", *words)
        assert code == 2 and "choose another --out" in err
    assert PAGE.read_bytes() == before
    assert calibsft(*run)[0] == 0


def test_the_report_of_an_unfinished_run_is_a_page_elsewhere(
    calibsft: Command, run: tuple[object, ...]
) -> None:
    Path("run/report/manifest.json").unlink()
    Path("run/eval-base").rename("aside")
    Path("run/eval-more").mkdir()
    for path in Path("aside").rglob("*"):
        target = Path("run/eval-more", path.relative_to("aside"))
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    code, told, err = calibsft("report", "run")
    assert (code, told) == (0, "report: report.html\n"), err
    code, _, err = calibsft("report", "run", "-o", "run/report")
    assert code == 2 and "choose another --out" in err
    Path("aside").rename("run/eval-base")
    assert calibsft(*run)[0] == 0, "the run goes on"


def test_a_folder_of_evaluations_without_a_recipe_keeps_its_report_inside(
    calibsft: Command, run: tuple[object, ...]
) -> None:
    Path("mine").mkdir()
    Path("run/eval-base").rename("mine/eval-base")
    assert calibsft("report", "mine")[:2] == (0, "report: mine/report/report.html\n")
