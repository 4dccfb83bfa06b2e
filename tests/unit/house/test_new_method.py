"""A newcomer's RL method: the file of docs/extending.md and one line in the dict, and every door knows it."""

import json
from pathlib import Path

import pytest

from package_copy import Newcomer, PackageCopy, copy_with

METHOD = Newcomer("rl/methods/spherical.py", "rl/methods/__init__.py", "METHODS", '"spherical": SPHERICAL')
QUICK = "steps=1 questions=2 group_size=4 updates=1 micro_batch_size=8 max_new_tokens=30 keep_unanimous=true"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> PackageCopy:
    return copy_with(tmp_path_factory.mktemp("package"), METHOD)


def test_help_and_lists_name_it_and_what_is_its_own(copied: PackageCopy) -> None:
    listed = {row["name"]: row["says"] for row in json.loads(copied.run("ls", "methods", "--json"))}
    assert listed["spherical"].startswith("Spherical: the spherical score")
    shown = " ".join(copied.run("rl", "--help").replace("│", " ").split())
    assert (
        "redoubt, spherical" in shown and "what keeping to the format is worth (spherical)" in shown.lower()
    )


def test_a_recipe_trains_with_it_under_its_own_settings(copied: PackageCopy) -> None:
    (copied.root / "mine.yaml").write_text(
        "pipelines: [[calibsft, spherical]]\nrl_methods: {spherical: {format_point: 0.5}}\n"
        "eval: {benchmarks: [multiply-1]}\n"
    )
    planned = copied.run("run", "mine.yaml", "--dry-run")
    assert "format_point: 0.5" in planned
    said = copied.run("run", "mine.yaml", "--dry-run", "--set", "rl.format_point=1", status=2)
    assert "rl.format_point" in said and "it is for spherical; give it to them under rl_methods" in said
    said = copied.run(
        "run", "mine.yaml", "--dry-run", "--set", "rl_methods.spherical.leave_one_out=true", status=2
    )
    assert "leave_one_out means nothing here, it is for coca, dcpo" in said


def test_it_trains_and_its_checkpoint_says_what_it_is(copied: PackageCopy, short_base: Path) -> None:
    copied.write(
        "q.jsonl", [{"question_id": n, "question": f"{n}*2", "gold": str(2 * n)} for n in (11, 12, 13)]
    )
    changes = [word for setting in QUICK.split() for word in ("--set", setting)]
    words = ("--model", short_base, "--data", "q.jsonl", "--device", "cpu", *changes)
    copied.run("rl", "--method", "spherical", *words, "--out", "run/trained")
    manifest = json.loads(copied.read("run/trained/manifest.json"))
    assert manifest["method"] == "Spherical" and manifest["lineage"] == ["spherical"]
    assert "Spherical" in copied.read("run/trained/model/README.md")
    copied.run("report", "run", "-o", "report.html")
    assert "Base→Spherical" in copied.read("report.html")
