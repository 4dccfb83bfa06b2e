"""Stage folders that others can write into: links in wait, and records that no stage has written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.artifacts import (
    MANIFEST,
    QUESTIONS,
    SETTINGS,
    StageFolder,
    read_manifest,
    recorded_settings,
    shard_name,
    write_parquet,
    write_text,
)
from calibsft.errors import InputError
from command import Command


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


def finished_with(folder: Path, stage_name: str, frame: pl.DataFrame) -> Path:
    """A finished stage whose only shard is then overwritten with as many bytes of garbage."""
    stage = StageFolder(folder, stage_name, {"format": "probability"})
    stage.begin()
    write_parquet(folder / shard_name(0), frame)
    write_parquet(folder / QUESTIONS, frame)
    stage.finish()
    size = (folder / shard_name(0)).stat().st_size
    (folder / shard_name(0)).write_bytes(b"PAR1" + b"\xfe" * (size - 8) + b"PAR1")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["score", "s"],
        ["diagnose", "s"],
        ["report", "s", "-o", "r.html"],
        ["plot", "reliability", "s"],
        ["certify", "s", "--risk", "0.1"],
        ["verify", "s", "--out", "o", "--no-hash-check"],
        ["rl", "--method", "rlcr", "--model", "m", "--data", "q.csv", "--verdicts", "s", "--out", "o", "--no-hash-check"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_garbage_in_place_of_a_shard_is_told_by_its_name(calibsft: Command, words: list[str]) -> None:
    Path("m").mkdir()
    Path("q.csv").write_text("question_id,question,gold\n1,1*1,1\n")
    rows = {"dataset": ["d"], "question_id": ["1"], "confidence": [0.5], "correct": [True]}
    finished_with(Path("s"), "rollout" if words[0] == "verify" else "verify", pl.DataFrame(rows))
    code, _, said = calibsft(*words)
    assert code == 2 and "unexpected" not in said, said
    assert said.splitlines()[-1].startswith("calibsft: s/part-00000.parquet: damaged, not as manifest.json")


def test_garbage_in_a_folder_without_a_manifest(calibsft: Command) -> None:
    Path("s").mkdir()
    Path("s/part-00000.parquet").write_bytes(b"garbage")
    code, _, said = calibsft("score", "s")
    assert code == 2 and said.startswith("calibsft: s: cannot be read as Parquet: ")
