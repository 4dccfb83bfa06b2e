"""Stage folders: atomic writes, manifests, and what a rerun accepts."""

import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, BinaryIO

import polars as pl
import pytest

from calibsft.artifacts import (
    COST,
    MANIFEST,
    SETTINGS,
    StageFolder,
    file_hash,
    flatten,
    locked,
    model_inputs,
    read_manifest,
    shard_name,
    shards,
    write_atomic,
    write_json,
    write_parquet,
    write_text,
)
from calibsft.artifacts.locks import LOCK
from calibsft.errors import InputError
from calibsft.schema import SCHEMA_VERSION


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stage(
    path: Path, settings: dict[str, Any] | None = None, inputs: dict[str, str] | None = None
) -> StageFolder:
    return StageFolder(path, "build", settings or {"seed": 0}, inputs or {})


def finished(path: Path, text: str = "data") -> StageFolder:
    folder = stage(path)
    folder.begin()
    write_text(path / "data.txt", text)
    folder.finish()
    return folder


def test_a_file_appears_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "a.txt", "Grüße")
    assert (tmp_path / "deep" / "a.txt").read_bytes() == "Grüße".encode()
    assert names(tmp_path / "deep") == ["a.txt"]


def test_json_and_parquet_can_be_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1, None]})
    write_parquet(tmp_path / "a.parquet", pl.DataFrame({"x": [1]}))
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"ü": [1, None]}
    assert pl.read_parquet(tmp_path / "a.parquet")["x"].to_list() == [1]


@pytest.mark.parametrize(
    "failure, told", [(ValueError, ValueError), (OSError, InputError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_a_writer_that_fails_half_way_leaves_the_old_file(
    tmp_path: Path, failure: type[BaseException], told: type[BaseException]
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def half(partial: Path) -> None:
        partial.write_text("ne")
        raise failure

    with pytest.raises(told):
        write_atomic(path, half)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_final_name_is_not_touched_before_the_content_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def write(partial: Path) -> None:
        partial.write_text("new")
        assert path.read_text() == "old"

    write_atomic(path, write)
    assert path.read_text() == "new"


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, kind: str) -> None:
    """A limit on file size stands in for the full disk: both end in a failing write."""
    program = """
        import resource, signal, sys
        from pathlib import Path
        import polars as pl
        from calibsft.artifacts import write_parquet, write_text
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        path, kind = Path(sys.argv[1]), sys.argv[2]
        try:
            if kind == "text":
                write_text(path, "new" * 10_000)
            else:
                write_parquet(path, pl.DataFrame({"x": [str(i) * 9 for i in range(10_000)]}))
        except Exception as error:
            print(type(error).__name__)
        """
    path = tmp_path / "a.bin"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), str(path), kind],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip().endswith("Error"), done.stderr
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.bin"]


def test_flatten_makes_dotted_keys() -> None:
    nested = {"a": 1, "b": {"c": [2], "d": {"e": None}}, "f": {}}
    assert flatten(nested) == {"a": 1, "b.c": [2], "b.d.e": None}


def test_shards_are_read_in_order_and_nothing_else_is(tmp_path: Path) -> None:
    for name in (shard_name(10), shard_name(2), "questions.parquet", shard_name(3) + ".partial"):
        (tmp_path / name).touch()
    assert [path.name for path in shards(tmp_path)] == ["part-00002.parquet", "part-00010.parquet"]


def test_the_manifest_comes_last_and_means_complete(tmp_path: Path) -> None:
    folder = stage(tmp_path / "s")
    assert not folder.complete
    folder.begin()
    assert not folder.complete and names(tmp_path / "s") == [SETTINGS]
    write_text(folder.path / "a.txt", "x")
    folder.finish(rows=3)
    manifest = folder.manifest()
    assert folder.complete and manifest["rows"] == 3 and manifest["resumed"] is False
    assert manifest["files"] == {"a.txt": file_hash(folder.path / "a.txt")}
    assert manifest["bytes"] == {"a.txt": 1}


def test_the_content_hash_follows_the_data_and_nothing_else(tmp_path: Path) -> None:
    first = finished(tmp_path / "a").manifest()["content_hash"]
    other = stage(tmp_path / "b", {"seed": 9})
    other.begin()
    write_text(other.path / "data.txt", "data")
    write_text(other.path / "metrics.jsonl", "a log")
    write_text(other.path / "checkpoints" / "x", "scratch")
    other.finish(note=1)
    assert other.manifest()["content_hash"] == first
    assert finished(tmp_path / "c", "other").manifest()["content_hash"] != first


def test_a_parent_folder_called_checkpoints_hides_nothing(tmp_path: Path) -> None:
    folder = finished(tmp_path / "checkpoints" / "run")
    assert list(folder.manifest()["files"]) == ["data.txt"]


def test_an_unfinished_stage_has_no_manifest_to_read(tmp_path: Path) -> None:
    stage(tmp_path / "s").begin()
    with pytest.raises(InputError, match="not a finished stage; run the stage to its end first"):
        read_manifest(tmp_path / "s")


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\udcff"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, content: str) -> None:
    finished(tmp_path)
    (tmp_path / MANIFEST).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="not a manifest; remove"):
        read_manifest(tmp_path)


def test_a_manifest_of_another_schema_is_refused_even_when_its_files_are_gone(tmp_path: Path) -> None:
    manifest = finished(tmp_path).manifest()
    write_json(tmp_path / MANIFEST, manifest | {"schema_version": 99})
    (tmp_path / "data.txt").unlink()
    with pytest.raises(InputError, match=f"schema version 99 is not {SCHEMA_VERSION}; use the calibsft"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("damage", ["damaged", "missing"])
def test_a_file_that_is_not_as_the_manifest_says_is_refused(tmp_path: Path, damage: str) -> None:
    finished(tmp_path)
    if damage == "missing":
        (tmp_path / "data.txt").unlink()
    else:
        (tmp_path / "data.txt").write_text("dat")
    said = rf"data\.txt: {damage}.*; remove .*manifest\.json, then run the stage again, which makes only what is missing"
    with pytest.raises(InputError, match=said):
        read_manifest(tmp_path)


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    folder = stage(tmp_path)
    folder.discard()
    with pytest.raises(
        InputError, match="not empty and not a stage of calibsft; choose another one with --out"
    ):
        folder.begin()
    assert names(tmp_path) == ["thesis.tex"]


def test_a_foreign_file_of_the_settings_name_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("name: mine\n")
    (tmp_path / "thesis.tex").write_text("years of work")
    folder = stage(tmp_path)
    for act in (folder.discard, folder.difference, folder.begin):
        with pytest.raises(InputError, match="not a settings file of calibsft, or damaged"):
            act()
    assert names(tmp_path) == [SETTINGS, "thesis.tex"]


def test_the_folder_of_another_stage_is_refused_and_never_discarded(tmp_path: Path) -> None:
    finished(tmp_path)
    other = StageFolder(tmp_path, "rollout", {"seed": 1})
    other.discard()
    with pytest.raises(InputError, match="the folder holds stage 'build', not 'rollout'"):
        other.check_unchanged()
    assert (tmp_path / "data.txt").is_file()


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    stage(tmp_path).begin()
    assert names(tmp_path) == [SETTINGS]


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(InputError, match="cannot be created as a folder"):
        stage(path).begin()
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "settings, inputs, said",
    [
        ({"seed": 1, "sft": {"steps": 3, "lr": 1e-6}}, {"pool": "h"}, "seed was 0 and is now 1"),
        ({"seed": 0, "sft": {"steps": 4, "lr": 1e-6}}, {"pool": "h"}, "sft.steps was 3 and is now 4"),
        ({"seed": 0, "sft": {"steps": 3}}, {"pool": "h"}, "sft.lr was 1e-06 and is now None"),
        ({"seed": 0, "sft": {"steps": 3, "lr": 1e-6}}, {"pool": "i"}, "its input 'pool' has changed"),
        ({"seed": 0, "sft": {"steps": 3, "lr": 1e-6}}, {}, "its input 'pool' has changed"),
        ({"seed": 0, "sft": {"steps": 3, "lr": 1e-6}}, {"pool": "h"}, None),
    ],
)
def test_a_changed_setting_or_input_is_refused_by_name(
    tmp_path: Path, settings: dict[str, Any], inputs: dict[str, str], said: str | None
) -> None:
    first = stage(tmp_path, {"seed": 0, "sft": {"steps": 3, "lr": 1e-6}}, {"pool": "h"})
    first.begin()
    write_text(tmp_path / "part-00000.parquet", "work")
    again = stage(tmp_path, settings)
    again.inputs = inputs
    assert again.difference() == said
    if said:
        with pytest.raises(InputError, match="start this stage over with --fresh"):
            again.begin()
        assert (tmp_path / "part-00000.parquet").read_text() == "work"
    else:
        again.begin()
        again.finish()
        assert again.manifest()["resumed"] is True


def test_tuples_are_the_lists_they_become_in_a_file(tmp_path: Path) -> None:
    stage(tmp_path, {"stop": ["a"]}).begin()
    write_text(tmp_path / "x", "work")
    assert stage(tmp_path, {"stop": ("a",)}).difference() is None


def test_a_folder_without_any_work_may_be_taken_up_under_other_settings(tmp_path: Path) -> None:
    """Else an attempt that failed on bad input would block the corrected one."""
    stage(tmp_path, {"min_group": 99}).begin()
    again = stage(tmp_path, {"min_group": 1})
    again.begin()
    assert "min_group: 1" in (tmp_path / SETTINGS).read_text()


def test_what_a_kill_while_writing_the_settings_left_is_no_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / f"{SETTINGS}.partial").write_text("stag")
    stage(tmp_path).begin()
    assert names(tmp_path) == [SETTINGS]


def test_leftovers_of_a_kill_are_removed_when_work_goes_on(tmp_path: Path) -> None:
    stage(tmp_path).begin()
    (tmp_path / "part-00000.parquet.partial").write_text("torn")
    (tmp_path / "part-00001.parquet").write_text("whole")
    for folder in ("model.partial", "rollouts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part-00000.parquet.partial").write_text("torn")
    stage(tmp_path).begin()
    assert names(tmp_path) == ["part-00001.parquet", SETTINGS, "rollouts"]
    assert names(tmp_path / "rollouts") == []


def test_discarding_removes_the_stage_but_not_its_lock(tmp_path: Path) -> None:
    """A new lock beside a held one would let a second command in."""
    folder = finished(tmp_path / "s")
    with locked(folder.path):
        folder.discard()
        assert names(folder.path) == [LOCK]


def checkpoint(folder: Path) -> Path:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    "stray",
    ["README.md", "README.md.partial", ".DS_Store", "._model.safetensors", "model.safetensors.partial", "LICENSE", ".gitattributes"],
)  # fmt: skip
def test_a_file_that_no_model_is_read_from_does_not_change_a_checkpoint(tmp_path: Path, stray: str) -> None:
    before = model_inputs(str(checkpoint(tmp_path)))
    (tmp_path / stray).write_text("anything")
    assert model_inputs(str(tmp_path)) == before != {}


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "model.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin", "tokenizer.model",
        "merges.txt", "chat_template.jinja", "qwen.tiktoken",
    ],
)  # fmt: skip
def test_a_file_that_a_model_is_read_from_changes_a_checkpoint(tmp_path: Path, name: str) -> None:
    before = model_inputs(str(checkpoint(tmp_path)))
    (tmp_path / name).write_text("something else")
    assert model_inputs(str(tmp_path)) != before


def test_hidden_files_are_neither_work_nor_content(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_text("where the icons are")
    folder = finished(tmp_path)
    assert list(folder.manifest()["files"]) == ["data.txt"]
    assert folder.manifest()["resumed"] is False


def reader(path: Path, *reads: Path) -> StageFolder:
    return StageFolder(path, "verify", {}, {}, reads)


@pytest.mark.parametrize("read", [".", "data.txt"], ids=["the folder", "a file in it"])
def test_damage_that_keeps_the_size_is_noticed_by_the_stage_that_reads_it(tmp_path: Path, read: str) -> None:
    finished(tmp_path / "in", "data")
    (tmp_path / "in" / "data.txt").write_text("dada")
    with pytest.raises(
        InputError, match=r"in/data\.txt: damaged, .*; remove it and .*in/manifest\.json, then run"
    ):
        reader(tmp_path / "out", tmp_path / "in" / read).perform(
            lambda _: pytest.fail("it read damage"), False
        )
    assert not (tmp_path / "out" / SETTINGS).exists()
    reader(tmp_path / "out", tmp_path / "in" / read).perform(lambda _: {}, False, hash_check=False)
    assert (tmp_path / "out" / MANIFEST).is_file()


def test_what_a_stage_does_not_read_is_not_checked(tmp_path: Path) -> None:
    folder = stage(tmp_path / "in")
    folder.begin()
    for name in ("model/config.json", "log.txt"):
        write_text(folder.path / name, "data")
    folder.finish()
    (folder.path / "log.txt").write_text("dada")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / MANIFEST).write_text("of something else")
    reads = (folder.path / "model", tmp_path / "web", Path("some/name-on-the-hub"))
    reader(tmp_path / "out", *reads).perform(lambda _: {}, False)
    assert (tmp_path / "out" / MANIFEST).is_file()


def test_a_file_is_hashed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    digest = hashlib.file_digest

    def counted(file: BinaryIO, name: str) -> Any:
        computed.append(name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    path = tmp_path / "a"
    path.write_text("old")
    os.utime(path, (1e9, 1e9))
    first = file_hash(path)
    assert file_hash(path) == first and len(computed) == 1
    path.write_text("new")
    assert file_hash(path) != first and len(computed) == 2


def test_a_change_within_one_tick_of_the_clock_changes_the_hash(tmp_path: Path) -> None:
    path = tmp_path / "a"
    found = []
    for text in ("aa", "bb", "cc") * 20:
        path.write_text(text)
        found.append(file_hash(path))
    assert found == found[:3] * 20 and len(set(found)) == 3


def test_the_cost_adds_up_and_is_no_work_that_could_be_lost(tmp_path: Path) -> None:
    stage(tmp_path).begin()
    write_json(tmp_path / COST, {"wall_seconds": 1000.0, "cpu_seconds": 500.0, "peak_memory_mb": 1e9})
    changed = stage(tmp_path, {"seed": 1})
    assert changed.difference() is None, "nothing was made under the old settings"
    changed.begin()
    changed.finish()
    manifest = read_manifest(tmp_path)
    assert 1000 <= manifest["wall_seconds"] < 1100 and manifest["peak_memory_mb"] == 1e9
    assert 500 <= manifest["cpu_seconds"] < 600
    assert manifest["resumed"] is False and manifest["files"] == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"wall_seconds": "x", "peak_memory_mb": 1}', '{"wall_seconds": 1}']
)
def test_a_damaged_cost_file_does_not_stop_the_work(tmp_path: Path, text: str) -> None:
    (tmp_path / COST).write_text(text)
    folder = stage(tmp_path)
    folder.perform(lambda path: {"rows": 1}, fresh=False)
    assert folder.manifest()["wall_seconds"] < 100


def test_an_interrupted_part_leaves_its_cost(tmp_path: Path) -> None:
    folder = stage(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        folder.perform(_interrupted, fresh=False)
    assert json.loads((tmp_path / COST).read_text())["peak_memory_mb"] > 0


def _interrupted(folder: Path) -> dict[str, Any]:
    raise KeyboardInterrupt


def test_a_file_system_without_locks_is_worked_on_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    reader(tmp_path).perform(lambda _: {}, False)
    assert (tmp_path / MANIFEST).is_file()
    assert "its file system has no locks" in capsys.readouterr().err


def test_a_lock_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / LOCK).symlink_to(tmp_path / "mine.txt")
    with pytest.raises(InputError, match=r"s/\.lock: cannot be written"), locked(tmp_path / "s"):
        pass
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"pid": 1}', "\x00"])
def test_a_lock_without_a_name_in_it_is_refused_all_the_same(tmp_path: Path, content: str) -> None:
    with locked(tmp_path):
        (tmp_path / LOCK).write_text(content)
        with pytest.raises(InputError, match="another process works in it; wait until"), locked(tmp_path):
            pass
