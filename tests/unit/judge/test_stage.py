"""`calibsft verify` with a judge: who is asked, what is recorded, what a failure costs."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from judge_server import KEY, Server, refused, says_yes_to_even_numbers


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    """Four responses to a question for the judge, and one for another grader."""
    rows = [
        {
            "question_id": "q",
            "question": "Which city?",
            "gold": ["Paris"],
            "kind": "judge",
            "response": answer,
        }
        for answer in ("city 2", "city 3", "city 4", "Paris")
    ] + [{"question_id": "m", "question": "1+1", "gold": ["2"], "kind": "math", "response": "2"}]
    for row in rows:
        row["response"] = f"<think></think> <answer>{row['response']}</answer> <confidence>0.90</confidence>"
    path = tmp_path / "responses.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_verify_asks_the_judge_and_names_it_in_every_verdict(
    calibsft: Callable[..., tuple[int, str, str]], server: Server, responses: Path
) -> None:
    server.answer = says_yes_to_even_numbers
    arguments = ("verify", responses, "--out", "v", "--judge", "m", "--judge-url", server.url, "--json")
    code, out, err = calibsft(*arguments)
    assert code == 0, err
    found = pl.read_parquet("v/part-*.parquet")
    assert found["correct"].to_list() == [True, False, True, True, True]
    assert set(found["grader"][:4]) == {"judge-1 m (exact aliases unasked)"}
    assert json.loads(out)["graders"] == sorted(set(found["grader"]))
    assert len(server.bodies) == 3
    assert all("Which city?" in prompt and "0.90" not in prompt for prompt in server.prompts)
    assert KEY not in "".join(path.read_text(errors="ignore") for path in Path("v").iterdir())


def test_a_judge_that_goes_away_stops_verify_and_what_it_said_is_kept(
    calibsft: Callable[..., tuple[int, str, str]], server: Server, responses: Path
) -> None:
    server.answer = lambda body: (
        says_yes_to_even_numbers(body) if len(server.bodies) < 2 else (401, refused("who are you"))
    )
    arguments = ("verify", responses, "--out", "v", "--judge", "m", "--judge-url", server.url)
    code, _, err = calibsft(*arguments)
    assert code == 2 and "Traceback" not in err and "refuses the API key" in err and KEY not in err
    asked = len(server.bodies)
    server.answer = says_yes_to_even_numbers
    code, _, err = calibsft(*arguments)
    assert code == 0, err
    assert len(server.bodies) == asked + 2


def test_without_a_judge_the_verdicts_say_that_aliases_were_matched(
    calibsft: Callable[..., tuple[int, str, str]], responses: Path
) -> None:
    code, out, err = calibsft("verify", responses, "--out", "v", "--json")
    assert code == 0, err
    assert "judge-1 (alias match, no judge model)" in json.loads(out)["graders"]
    assert json.loads(out)["overall"]["grades"] == {"correct": 2, "incorrect": 3}


def test_an_address_without_a_model_is_refused(
    calibsft: Callable[..., tuple[int, str, str]], responses: Path
) -> None:
    code, _, err = calibsft("verify", responses, "--out", "v", "--judge-url", "http://localhost:1/v1")
    assert code == 2 and "judge.url needs judge.model" in err
