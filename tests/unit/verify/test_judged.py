"""The judge without a model: alias match, replies, settings."""

import csv
import gzip
import os
import re
import string
import subprocess
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

from calibsft.errors import InputError
from calibsft.judge.settings import JudgeSettings
from calibsft.recipe import load_recipe
from calibsft.schema import Grade
from calibsft.settings import validated
from calibsft.text import visible_line
from calibsft.verify.alias import JUDGE, normalise
from calibsft.verify.judged import load_answer_judge
from judge_server import Server, item, judge_at

CORRECT, INCORRECT, UNJUDGED = Grade.CORRECT, Grade.INCORRECT, Grade.UNJUDGED


@pytest.mark.parametrize(
    "gold, answer, grade",
    [
        ("Paris", "  the PARIS. ", CORRECT),
        (("Sunset Blvd", "Sunset Boulevard"), "sunset_boulevard", CORRECT),
        ("Rock 'n' Roll", "rock ‘n’ roll", CORRECT),
        ("Rock ´n´ Roll", "rock `n` roll", CORRECT),
        ("Jean-Luc", "jean luc", CORRECT),
        ("Jean-Luc", "jeanluc", INCORRECT),
        ("A Tale of Two Cities", "tale of two cities", CORRECT),
        ("Theatre", "atre", INCORRECT),
        ("Paris", "Paris, France", INCORRECT),
        ("Par\u200bis", "\u202eParis\0", CORRECT),
        ("!!!", "!!!", CORRECT),
        ("!!!", "???", INCORRECT),
        ("!!!", "the", INCORRECT),
        ("The The", "the  The", CORRECT),
        ("The The", "the", INCORRECT),
        ("The The", "", Grade.UNPARSED_ANSWER),
        ("Paris", " \n\0\u200b", Grade.UNPARSED_ANSWER),
        ("Paris", "...", INCORRECT),
        ((), "Paris", Grade.UNPARSED_GOLD),
        (("", "\u200b"), "", Grade.UNPARSED_GOLD),
        (("", "Paris"), "paris", CORRECT),
        ("x" * 20_001, "x", Grade.UNPARSED_GOLD),
        ("Paris", "x" * 20_001, Grade.TOO_LARGE),
        ("Paris", "x" * 20_000, INCORRECT),
    ],
)
def test_without_a_model_an_answer_must_be_an_alias(
    gold: str | tuple[str, ...], answer: str, grade: Grade
) -> None:
    assert JUDGE.grade(item(answer, gold)) is grade


def test_punctuation_becomes_a_space_and_articles_go_as_words() -> None:
    assert normalise("The_Beatles' “An”-thology: a/an") == "beatles “ ” thology"


def test_normalisation_is_triviaqa_s_own_on_its_own_aliases() -> None:
    file = Path(__file__).parents[4] / "shared/data/benchmarks/triviaqa.tsv.gz"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        rows = [literal_eval(aliases) for _, aliases in csv.reader(text, delimiter="\t")]
    assert len(rows) == 11_313
    marks = re.compile(f"[{re.escape(string.punctuation)}‘’´]")
    for aliases in rows:
        for alias in aliases:
            spaced = marks.sub(" ", visible_line(alias).lower())
            assert normalise(alias) == " ".join(re.sub(r"\b(a|an|the)\b", " ", spaced).split())
        assert JUDGE.grade(item(aliases[-1], tuple(aliases))) is CORRECT


def test_the_grader_runs_in_process() -> None:
    assert (JUDGE.name, JUDGE.version, JUDGE.isolated) == ("judge", 1, False)


@pytest.mark.parametrize("reply", ["Yes", " yes.", "**YES**", "yes\n", "Yes!"])
def test_yes_in_any_dress_is_correct(server: Server, reply: str) -> None:
    server.answer = lambda body: (200, reply)
    assert judge_at(server).grade_all([item("Lyon")]) == [CORRECT]


@pytest.mark.parametrize(
    "reply, grade",
    [
        ("No", INCORRECT),
        ("no.", INCORRECT),
        *((text, UNJUDGED) for text in ("", None, "yes or no", "Not", "<think>", "yesno", "1", "maybe")),
    ],
)
def test_only_a_bare_no_is_incorrect_and_all_else_unjudged(
    server: Server, reply: str | None, grade: Grade
) -> None:
    server.answer = lambda body: (200, reply)
    assert judge_at(server).grade_all([item("Lyon")]) == [grade]


# Settings


def test_without_a_model_there_is_no_judge() -> None:
    assert load_answer_judge(load_recipe("tiny").judge, None, "cpu", "auto") is None


def test_settings_lead_to_the_endpoint(server: Server) -> None:
    judge = load_answer_judge(JudgeSettings(model="m", url=server.url, concurrency=2, timeout=5), None)
    assert judge is not None and judge.grade_all([item("Lyon")]) == [CORRECT]
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"url": "http://localhost/v1"}, "judge.url needs judge.model"),
        ({"model": ""}, "at least 1 character"),
        ({"model": "m", "concurrency": 0}, "greater than or equal to 1"),
        ({"model": "m", "timeout": 0}, "greater than 0"),
        *(
            ({"model": "m", "url": url}, "judge.url must be a plain address such as http://localhost:8000/v1")
            for url in (
                "localhost:8000",
                "ftp://x/v1",
                "http://",
                "http://u:hidden@x/v1",
                "http://x/v1?key=hidden",
            )
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        validated(JudgeSettings, settings, "recipe")
    assert "hidden" not in str(caught.value)


def test_judging_needs_neither_torch_nor_the_client_until_asked() -> None:
    program = (
        "import sys, calibsft.judge, calibsft.judge.local, calibsft.judge.endpoint, calibsft.verify.judged\n"
        "print(*{m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'openai', 'httpx2', 'pydantic'})"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
