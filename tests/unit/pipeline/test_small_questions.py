"""The questions that ship for small real models: made by their script, and those of the test are no training questions."""

import subprocess
import sys
from pathlib import Path

import pytest

from calibsft.benchmarks.files import load_questions
from calibsft.responses.formats import FORMATS
from calibsft.rollouts.shots import read_shots

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "recipes/smollm2"
TESTS = ("arithmetic", "facts")


def test_they_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/smollm2-questions", tmp_path], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", TESTS)
def test_no_question_is_asked_twice_or_shown_before(name: str) -> None:
    trained = {question.text for question in load_questions(FOLDER / "train.jsonl")}
    shown = {shot.question for shot in read_shots(FOLDER / "shots.jsonl", FORMATS["probability"])}
    tested = [question.text for question in load_questions(FOLDER / f"{name}.jsonl")]
    assert len(set(tested)) == len(tested) and not set(tested) & (trained | shown)
    assert not trained & shown
