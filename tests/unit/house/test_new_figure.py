"""A newcomer's figure: the file of docs/extending.md and one line in the dict, and pages and `calibsft plot` have it."""

import json

import pytest

from package_copy import Newcomer, PackageCopy, copy_with

OVERCONFIDENCE = Newcomer(
    "report/figures/overconfidence.py", "report/figures/__init__.py", "FIGURES", "OVERCONFIDENCE"
)
TITLE = "Where the model is too sure"
RESPONSES = "question_id,dataset,confidence,correct\na,easy,0.9,1\nb,easy,0.7,1\nc,hard,0.8,0\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    """The copy, with responses to two benchmarks."""
    package = copy_with(tmp_path_factory.mktemp("package"), OVERCONFIDENCE)
    (package.root / "ours.csv").write_text(RESPONSES)
    return package


def test_lists_and_errors_name_it(package: PackageCopy) -> None:
    *_, last = json.loads(package.run("ls", "figures", "--json"))
    assert last["name"] == "overconfidence" and last["says"].startswith("Overconfidence: how much surer")
    assert package.run("ls", "figures").splitlines()[-1].startswith("overconfidence ")
    said = package.run("plot", "overconfident", "ours.csv", status=2)
    assert "unknown figure 'overconfident'; did you mean 'overconfidence'?" in said


def test_it_is_drawn_alone(package: PackageCopy) -> None:
    assert "overconfidence.svg" in package.run("plot", "overconfidence", "ours.csv")
    drawn = package.read("overconfidence.svg")
    assert all(text in drawn for text in (">easy<", ">hard<", ">mean confidence less accuracy<"))


def test_it_is_on_the_page_in_both_themes(package: PackageCopy) -> None:
    package.run("report", "ours.csv", "--out", "r")
    assert f"## {TITLE}\n\n![{TITLE}](figures/overconfidence.svg)" in package.read("r/report.md")
    assert f">{TITLE}<" in package.read("r/report.html")
    saved = {path.name for path in (package.root / "r/figures").glob("overconfidence*")}
    assert saved == {f"overconfidence{theme}.{kind}" for theme in ("", "-dark") for kind in ("svg", "png")}
