"""Stage folders that others can write into: links in wait, and records that no stage has written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibsft.artifacts import MANIFEST, SETTINGS, StageFolder, read_manifest, recorded_settings, write_text
from calibsft.errors import InputError


def test_a_link_under_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.html.partial").symlink_to(tmp_path / "mine.txt")
    (tmp_path / "report.html").symlink_to(tmp_path / "mine.txt")
    write_text(tmp_path / "report.html", "page")
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "report.html").read_text() == "page"


def test_a_temporary_name_that_is_taken_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "0")
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "a.txt.0.partial").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "a.txt", "other")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_file_gets_the_rights_that_new_files_get(tmp_path: Path) -> None:
    write_text(tmp_path / "ours", "")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.pop("content_hash"),
        lambda found: found.update(inputs=3),
        lambda found: found.update(bytes=["a"]),
        lambda found: found.pop("resumed"),
        lambda found: found.update(stage=None),
    ],
)
def test_a_manifest_without_what_every_stage_writes(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    stage = StageFolder(tmp_path / "s", "build", {})
    stage.begin()
    stage.finish()
    found = json.loads((tmp_path / "s" / MANIFEST).read_text())
    change(found)
    (tmp_path / "s" / MANIFEST).write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"manifest.json: not a manifest; remove"):
        read_manifest(tmp_path / "s")


def test_a_manifest_that_is_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"manifest.json: not a manifest; remove"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "settings: 3", "a: [", "settings: {}", "a: " + "[" * 5000])
def test_settings_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS).write_text(text)
    with pytest.raises(
        InputError, match=r"recipe.resolved.yaml: not a settings file of calibsft, or damaged"
    ):
        recorded_settings(tmp_path)
