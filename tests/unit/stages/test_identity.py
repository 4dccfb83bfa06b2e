"""What identifies a stage: the content of what it reads and the settings that shape it, not paths, devices or pace."""

import json
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.stages import STAGES
from calibsft.stages.rollout import RolloutStage
from command import Command


def questions(path: Path, gold: str = "0110") -> Path:
    path.write_text(
        json.dumps({"question_id": "a", "question": "10*11", "gold": gold, "kind": "exact"}) + "\n"
    )
    return path


def test_questions_count_by_their_content_whatever_the_file_is_called(
    calibsft: Command, random_checkpoint: Path, tmp_path: Path
) -> None:
    sampled = ("rollout", "--model", random_checkpoint, "-n", 2, "--max-new-tokens", 4, "--out", "r")
    first = questions(tmp_path / "q.jsonl")
    assert calibsft(*sampled, "--questions", first, "--device", "cpu")[0] == 0
    moved = first.rename(tmp_path / "other.jsonl")
    code, _, err = calibsft(*sampled, "--questions", moved, "--max-rows", 3)
    assert code == 0 and "done before, skipped" in err
    code, _, err = calibsft(*sampled, "--questions", questions(moved, "0111"))
    assert code == 2 and "its input 'questions' has changed" in err


def test_what_does_not_shape_a_stage_is_not_recorded() -> None:
    given = {
        "model": "m",
        "questions": "q.jsonl",
        "limit": 3,
        "device": "cuda:1",
        "max_rows": 9,
        "samples": 4,
    }
    shaped = RolloutStage.of(given).shaped_by()
    asked = {"limit": 3, "offset": None, "subset": None, "subset_seed": 0, "revision": None}
    assert shaped["questions"] == asked and shaped["rollout"]["samples"] == 4
    assert not {"model", "device", "engine"} & shaped.keys()


@pytest.mark.parametrize("kind", STAGES)
def test_every_option_has_words_for_help_and_its_own_name(kind: str) -> None:
    options = STAGES[kind].options()
    assert all(option.help for option in options), [option.name for option in options if not option.help]
    names = [option.name for option in options]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", STAGES)
def test_an_unknown_key_is_refused_with_the_nearest(kind: str) -> None:
    stage = STAGES[kind]
    needed = {option.key: option.name for option in stage.options() if option.required}
    required = dict.fromkeys(needed.values(), "x") | (
        {"method": "rlcr"} if "method" in needed.values() else {}
    )
    known = next(option for option in stage.options() if len(option.key) == 2 and len(option.key[1]) > 4)
    wrong = f"{'.'.join(known.key)}x=1"
    with pytest.raises(InputError, match=rf"unknown key '{known.key[0]}\.{known.key[1]}x'"):
        stage.of(required, [wrong])
