"""The graders `text` and `contains`: which spellings are the same answer, and which never are."""

import gzip
import json
import time
from pathlib import Path

import pytest

from calibsft.schema import Grade
from calibsft.verify.contains import CONTAINS
from calibsft.verify.grader import GradeItem, Grader
from calibsft.verify.text import MAX_LENGTH, TEXT

BENCHMARKS = Path(__file__).parents[4] / "shared/data/benchmarks"
needs_benchmarks = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the shared benchmarks are not here")

BOTH = pytest.mark.parametrize("grader", [TEXT, CONTAINS], ids=lambda grader: grader.name)


def judge(grader: Grader, gold: str | tuple[str, ...], answer: str) -> Grade:
    return grader.grade(GradeItem(grader.name, gold, answer))


@pytest.mark.parametrize(
    "gold, answer",
    [
        ("Animorphs", "animorphs"),
        ("the Animorphs", "Animorphs"),
        ("Greenwich Village, New York City", "Greenwich  Village New York City."),
        ("U.S.", "US"),
        ("An apple a day", "apple day"),
        ("The-dream", "thedream"),
        ("São Paulo", "SÃO PAULO"),
        ("Paris", "\u200bPa\u00adris\ufeff\n"),
        ("The The", "The The"),
        ("The The", " the  the "),
        ("!!!", "!!!"),
        ("A", "a"),
    ],
)
def test_text_ignores_case_punctuation_articles_and_spacing(gold: str, answer: str) -> None:
    assert judge(TEXT, gold, answer) is Grade.CORRECT


@pytest.mark.parametrize(
    "gold, answer",
    [
        ("Paris", "Paris, France"),
        ("Paris", "London"),
        ("theory", "ory"),
        ("1,000", "100"),
        ("São Paulo", "Sao Paulo"),
        ("‘Hello’", "Hello"),
        ("The The", "The"),
        ("The The", "a an"),
        ("!!!", "???"),
        ("!!!", "the"),
        ("A", "an"),
        ("Paris", "the"),
        ("Paris", "..."),
    ],
)
def test_text_does_not_take_other_words_for_the_gold(gold: str, answer: str) -> None:
    assert judge(TEXT, gold, answer) is Grade.INCORRECT


def test_text_matches_any_alias() -> None:
    aliases = ("14 December 1972 UTC", "December 1972")
    assert judge(TEXT, aliases, "december, 1972") is Grade.CORRECT
    assert judge(TEXT, aliases, "1972") is Grade.INCORRECT


@pytest.mark.parametrize("answer", ["a polit. leader", "POL", "He was a politician.", "Political leader"])
def test_contains_finds_an_alias_as_is_lower_cased_or_capitalised(answer: str) -> None:
    assert judge(CONTAINS, ("Politician", "political leader", "polit.", "POL"), answer) is Grade.CORRECT


@pytest.mark.parametrize(
    "gold, answer",
    [
        ("politician", "POLITICIAN"),
        ("New York", "new  york"),
        ("New York", "NEW YORK"),
        ("New York", "York"),
        ("polit.", "polit"),
    ],
)
def test_contains_knows_no_other_spelling(gold: str, answer: str) -> None:
    assert judge(CONTAINS, gold, answer) is Grade.INCORRECT


@pytest.mark.parametrize(
    "answer, right",
    [
        ("Honolulu, Hawaii, USA", True),
        ("He was born in Honolulu and grew up in Hawaii or Jakarta.", True),
        ("Paris, London, Rome, Honolulu", False),
        ("Paris or London or Rome or Honolulu", False),
        ("Paris/London/Rome/Honolulu", False),
        ("Paris\nLondon\nRome\nHonolulu", False),
        (
            "Paris London Rome Honolulu Madrid Vienna Berlin Lisbon Dublin Oslo Prague Warsaw Athens Cairo Lima",
            False,
        ),
    ],
)
def test_contains_does_not_take_a_list_of_names_for_an_answer(answer: str, right: bool) -> None:
    assert judge(CONTAINS, "Honolulu", answer) is (Grade.CORRECT if right else Grade.INCORRECT)


def test_contains_takes_an_alias_that_is_a_list_itself() -> None:
    alias = "Peter, Paul, Mary, and the Holy Ghost"
    assert judge(CONTAINS, alias, alias) is Grade.CORRECT
    assert judge(CONTAINS, "x" * 500, f"It is {'x' * 500}.") is Grade.CORRECT


@pytest.mark.parametrize("gold, answer", [("USA", "in the usa"), ("new York", "New york")])
def test_contains_changes_the_alias_and_never_the_answer(gold: str, answer: str) -> None:
    assert judge(CONTAINS, gold, answer) is Grade.CORRECT


@BOTH
@pytest.mark.parametrize("answer", ["", "  \n", "\u200b", "\x00\u202e", "\ud800"])
@pytest.mark.parametrize("gold", ["Paris", "The The", "!!!", "A"])
def test_an_empty_prediction_is_always_wrong(grader: Grader, gold: str, answer: str) -> None:
    assert judge(grader, gold, answer) is Grade.UNPARSED_ANSWER


@BOTH
@pytest.mark.parametrize("gold", ["", " \t", "\u200b", "x" * (MAX_LENGTH + 1), (), ("", "\x00")])
@pytest.mark.parametrize("answer", ["", "Paris", "x" * (MAX_LENGTH + 1)])
def test_an_unreadable_gold_is_unscored_whatever_the_answer(
    grader: Grader, gold: str | tuple[str, ...], answer: str
) -> None:
    assert judge(grader, gold, answer) is Grade.UNPARSED_GOLD


@BOTH
def test_an_unreadable_alias_does_not_spoil_the_others(grader: Grader) -> None:
    assert judge(grader, ("", "Paris"), "Paris") is Grade.CORRECT
    assert judge(grader, ("", "Paris"), "London") is Grade.INCORRECT


@BOTH
def test_an_answer_over_the_limit_is_refused_at_once(grader: Grader) -> None:
    assert judge(grader, "a", "a" * MAX_LENGTH) in (Grade.CORRECT, Grade.INCORRECT)
    start = time.perf_counter()
    assert judge(grader, ("a",) * 200, "\u200ba " * 500_000) is Grade.TOO_LARGE
    assert time.perf_counter() - start < 0.5


@BOTH
@pytest.mark.parametrize("answer", ["the " * 5_000, "\u200bé" * 10_000, "\ud800" * 20_000, "!" * 20_000])
def test_the_longest_answer_against_many_aliases_takes_no_time(grader: Grader, answer: str) -> None:
    start = time.perf_counter()
    judge(grader, tuple(f"alias {n}" for n in range(200)), answer)
    assert time.perf_counter() - start < 1


def text_golds() -> list[str]:
    hotpot = [row["answer"] for row in json.loads((BENCHMARKS / "hotpotqa.json").read_text())]
    musique = json.loads((BENCHMARKS / "musique.json").read_text())
    rows = map(json.loads, (BENCHMARKS / "nq_open.jsonl").read_text().splitlines())
    return [
        *hotpot,
        *(gold for row in musique for gold in (row["answer"], *row["answer_aliases"])),
        *(gold for row in rows for gold in row["answer"]),
    ]


@needs_benchmarks
def test_every_gold_of_hotpotqa_musique_and_nq_open_is_right_against_itself() -> None:
    golds = text_golds()
    assert len(golds) > 7_405 + 2_417 + 3_610
    assert [gold for gold in golds if judge(TEXT, gold, gold) is not Grade.CORRECT] == []
    assert [gold for gold in golds if judge(TEXT, gold, f" {gold.lower()} ") is not Grade.CORRECT] == []


@needs_benchmarks
def test_every_alias_of_popqa_is_right_for_its_question() -> None:
    rows = json.loads(gzip.decompress((BENCHMARKS / "popqa.json.gz").read_bytes()))
    assert len(rows) == 14_267
    wrong = [
        (row["aliases"], alias)
        for row in rows
        for alias in row["aliases"]
        if judge(CONTAINS, tuple(row["aliases"]), f"It is {alias}, I think.") is not Grade.CORRECT
    ]
    assert wrong == []
