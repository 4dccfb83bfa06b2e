"""Files that GitHub and readers of the repository use: they agree with the package, and with one another."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from calibsft import __version__

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
KINDS = {"checkboxes", "dropdown", "input", "markdown", "textarea"}


def test_the_citation_is_of_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["title"], citation["version"]) == (PROJECT["name"], __version__)
    assert citation["license"] == PROJECT["license"]


def test_the_authors_are_those_who_hold_the_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (author,) = (author["name"] for author in citation["authors"])
    assert f"Copyright 2026 {author}\n" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["authors"] == [{"name": author}]


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__


@pytest.mark.parametrize(
    "path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem
)
def test_an_issue_form_has_what_github_requires(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"] and form["description"] and form["body"]
    assert len({part["id"] for part in form["body"]}) == len(form["body"])
    for part in form["body"]:
        assert part["type"] in KINDS and part["attributes"]["label"]
    labels = [part["attributes"]["label"] for part in form["body"]]
    assert "The output of `calibsft doctor`" in labels


def test_the_release_checklist_names_targets_that_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^ +make (\w+)", (ROOT / "RELEASING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) >= 3
    assert [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
