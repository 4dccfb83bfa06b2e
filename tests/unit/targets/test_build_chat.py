"""Training sets for other trainers: what the rows carry, and the warning that goes with them."""

import json
from pathlib import Path

import pytest

from calibsft.artifacts import read_manifest
from command import Command

PAD = {"probability": "0.50", "integer": "5"}


def built(calibsft: Command, format_name: str) -> str:
    rows = [
        {
            "question_id": name,
            "question": f"{name}?",
            "response": f"<think>so {i}</think>\n<answer>{i}</answer>\n <confidence>{PAD[format_name]}</confidence>",
            "correct": mark == "R",
        }
        for name, marks in {"q1": "RRW", "q2": "RWW"}.items()
        for i, mark in enumerate(marks)
    ]
    Path("pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, _, said = calibsft("build", "pool.jsonl", "--out", "o", "--format", format_name)
    assert code == 0, said
    return said


@pytest.mark.parametrize("format_name", list(PAD))
def test_rows_say_where_the_confidence_begins(calibsft: Command, format_name: str) -> None:
    built(calibsft, format_name)
    rows = [json.loads(line) for line in Path("o/sft.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["correct"] for row in rows} == {True, False}
    for row in rows:
        said = row["messages"][-1]["content"]
        before, after = said[: row["confidence_at"]], said[row["confidence_at"] :]
        assert before.endswith("</answer>") and "confidence" not in before
        assert after.startswith("\n <confidence>") and after.endswith("</confidence>")


def test_the_warning_stands_on_the_terminal_and_beside_the_file(calibsft: Command) -> None:
    said = built(calibsft, "probability")
    assert (
        "build: sft.jsonl holds wrong responses too, and plain SFT on it would imitate their reasoning; use calibsft sft, or"
        " mask as o/README.md says\n"
    ) in said
    note = Path("o/README.md").read_text(encoding="utf-8")
    assert "**Plain SFT on `sft.jsonl` imitates wrong reasoning.**" in note
    fields = json.loads(Path("o/sft.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert all(f"`{name}`" in note for name in fields)


def test_the_note_is_no_part_of_the_content(calibsft: Command) -> None:
    built(calibsft, "probability")
    assert "README.md" not in read_manifest(Path("o"))["files"]
