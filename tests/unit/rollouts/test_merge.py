"""A rollout in parts, put together: the folder that one machine would have left."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from command import Command


@pytest.fixture
def rollout(calibsft: Command, short_base: Path, tmp_path: Path) -> list[object]:
    asked = tmp_path / "questions.jsonl"
    rows = [{"question_id": str(n), "question": f"{n}*{n + 1}", "gold": "1"} for n in range(10, 24)]
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn = ["-n", 3, "--max-new-tokens", 30, "--shard-questions", 3, "--device", "cpu"]
    return ["rollout", "--model", short_base, "--questions", asked, *drawn]


def manifest(folder: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(folder) / "manifest.json").read_text())
    return found


def test_merged_parts_are_the_folder_of_one_machine(calibsft: Command, rollout: list[object]) -> None:
    for number in (1, 2, 3):
        assert calibsft(*rollout, "--shard", f"{number}/3", "--out", f"part-{number}")[0] == 0
    assert sorted(path.name for path in Path("part-2").glob("part-*")) == [
        "part-00001.parquet",
        "part-00004.parquet",
    ]
    code, _, err = calibsft("merge", "part-3", "part-1", "part-2", "--out", "merged")
    assert code == 0, err
    assert calibsft(*rollout, "--out", "whole")[0] == 0
    merged, whole = manifest("merged"), manifest("whole")
    for fact in ("content_hash", "files", "inputs", "tokens", "questions", "lineage", "stage", "device"):
        assert merged[fact] == whole[fact]
    parts = [manifest(f"part-{number}") for number in (1, 2, 3)]
    assert merged["wall_seconds"] == pytest.approx(sum(part["wall_seconds"] for part in parts))
    # The command of one machine finds its work done, and so does the next stage.
    assert "done before, skipped" in calibsft(*rollout, "--out", "merged")[2]
    assert "done before, skipped" in calibsft("merge", "part-1", "part-2", "part-3", "--out", "merged")[2]
    assert calibsft("verify", "merged", "--out", "verdicts")[0] == 0
    assert len(pl.read_parquet("verdicts/part-*.parquet")) == 14 * 3


def test_parts_that_do_not_make_a_whole_are_refused(calibsft: Command, rollout: list[object]) -> None:
    for number in (1, 2):
        assert calibsft(*rollout, "--shard", f"{number}/2", "--out", f"part-{number}")[0] == 0
    assert calibsft(*rollout, "--shard", "1/2", "--seed", 5, "--out", "other")[0] == 0
    assert calibsft(*rollout, "--out", "whole")[0] == 0
    shutil.copytree("part-2", "unfinished")
    (Path("unfinished") / "manifest.json").unlink()
    for parts, sentence in [
        (["part-1"], "part 2/2 was given 0 times; give each of the 2 parts once"),
        (["part-1", "part-1", "part-2"], "part 1/2 was given 2 times"),
        (
            ["part-2", "other"],
            "other: it is not part of the same rollout as part-2 (seed was 0 and is now 5)",
        ),
        (
            ["part-1", "whole"],
            "whole: not a part of a rollout; give folders that calibsft rollout --shard wrote",
        ),
        (["part-1", "nowhere"], "nowhere: not a part of a rollout"),
        (["part-1", "unfinished"], "unfinished: no manifest.json"),
    ]:
        code, _, err = calibsft("merge", *parts, "--out", "merged")
        assert code == 2 and sentence in err, err
        assert not Path("merged").exists()


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_a_part_that_is_none_is_refused(calibsft: Command, rollout: list[object], part: str) -> None:
    code, _, err = calibsft(*rollout, f"--shard={part}", "--out", "out")
    assert code == 2 and "shard" in err and "Traceback" not in err, err
