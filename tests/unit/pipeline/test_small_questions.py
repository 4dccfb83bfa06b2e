"""The questions that ship for small real models: made by their script, and those of the test are no training questions."""

import subprocess
import sys
from pathlib import Path

import pytest

from calibsft.benchmarks.files import load_questions
from calibsft.responses.formats import FORMATS
from calibsft.rollouts.shots import read_shots

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "recipes"
TESTS = [
    ("smollm2", "arithmetic"),
    ("smollm2", "facts"),
    ("qwen2.5-1.5b", "arithmetic"),
    ("qwen2.5-1.5b", "puzzles"),
]


def test_they_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/real-models-questions", tmp_path], check=True)
    folders = {
        folder.name: {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in tmp_path.iterdir()
    }
    assert set(folders) == {model for model, _ in TESTS}
    for name, written in folders.items():
        assert written == {path.name: path.read_bytes() for path in (RECIPES / name).iterdir()}


@pytest.mark.parametrize("model, name", TESTS)
def test_no_question_is_asked_twice_or_shown_before(model: str, name: str) -> None:
    trained = {question.text for question in load_questions(RECIPES / model / "train.jsonl")}
    tested = [question.text for question in load_questions(RECIPES / model / f"{name}.jsonl")]
    assert len(set(tested)) == len(tested) and not set(tested) & trained
    if (shots := RECIPES / model / "shots.jsonl").is_file():
        shown = {shot.question for shot in read_shots(shots, FORMATS["probability"])}
        assert not shown & trained and not shown & set(tested)
