"""The grader `drop`: the official exact match, and how spans may be listed."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from calibsft.schema import Grade
from calibsft.verify.drop import DROP, alternative, exact_match, normalise
from calibsft.verify.grader import GradeItem
from calibsft.verify.text import MAX_LENGTH

DATA = Path(__file__).parents[4] / "shared/data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")


def judge(gold: str | tuple[str, ...], answer: str) -> Grade:
    return DROP.grade(GradeItem("drop", gold, answer))


@pytest.mark.parametrize(
    "text, normal",
    [
        ("12", "12.0"),
        ("  1.2e1 ", "12.0"),
        ("12.000", "12.0"),
        ("1,234", "1234.0"),
        ("$50", "50.0"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("+5", "5.0"),
        ("78-yard", "78.0 yard"),
        ("S.K. Singh", "sk singh"),
        ("the a NOT an ARTICLE the", "not article"),
        ("25.7%", "257.0"),
        ("10000000000000000000000", "1e+22"),
        # Not numbers here, whatever float() would say.
        ("nan", "nan"),
        ("infinity", "infinity"),
        ("١٢", "١٢"),
        ("1e400", "1e400"),
        ("1e99999999", "1e99999999"),
    ],
)
def test_normalising_follows_the_official_rules_with_plain_ascii_numbers(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    "gold, answer",
    [
        ("12", "12.0"),
        ("1,234", "1234"),
        ("5,734 and 4,432", "4432 and 5734"),
        ("78 yard", "the 78-yard"),
        ("Pakistanis and Filipinos", "Pakistanis and Filipinos"),
        ("Pakistanis and Filipinos", "Filipinos, Pakistanis"),
        ("Pakistanis and Filipinos", '["Filipinos", "Pakistanis"]'),
        ("Pakistanis and Filipinos", "Filipinos\nPakistanis"),
        ("under the age of 18 and 25 to 44 and 45 to 64", "25 to 44, 45 to 64, and under age of 18"),
        ("Germany\nItaly\nFrance", "France, Germany and Italy"),
        ("Germany\nItaly\nFrance", "France; Germany; Italy"),
        ("Germany\nItaly\nFrance", "Italy\nGermany\n\nFrance"),
        ("Germany\nItaly\nFrance", '["Italy", "Germany", "France"]'),
        ("Ministry of Education and Culture\nParliament", "Parliament, Ministry of Education and Culture"),
        ("May 5, 1990", "May 5 1990"),
        ("guide, scout and translator", "guide, scout and translator"),
        (("49.7", "50.6"), "50.6"),
        ("café", '["caf\\u00e9"]'),
        ("The", "the"),
        ("and", "And"),
        ("12 persons", "12\u200b persons"),
    ],
)
def test_an_alternative_is_right_as_it_stands_or_listed_otherwise(gold: str, answer: str) -> None:
    assert judge(gold, answer) is Grade.CORRECT


@pytest.mark.parametrize(
    "gold, answer",
    [
        ("12", "13"),
        ("12", "12, 13"),
        ("12", "12 and 13"),
        ("12", '["12", "12"]'),
        ("1,234", "1 and 234"),
        ("1,234", "1, 234"),
        ("12 yards", "12"),
        ("Pakistanis and Filipinos", "Pakistanis"),
        ("Pakistanis and Filipinos", "Pakistanis and Filipinos and Indians"),
        ("households and families and households and families", "households and families"),
        ("Germany\nItaly", "Germany"),
        ("Germany\nItaly", "Germany, Italy, France"),
        ("Germany\nItaly", "Germany, Germany"),
        ("1e400", "2e400"),
        ("12", "١٢"),
        ("The", "a"),
        ("and", "and and"),
    ],
)
def test_other_numbers_or_another_number_of_spans_are_wrong(gold: str, answer: str) -> None:
    assert judge(gold, answer) is Grade.INCORRECT


@pytest.mark.parametrize(
    "answer, gold",
    [
        ({"number": "4", "spans": ["four"], "date": {"year": "1990"}}, "4"),
        ({"number": 0}, "0"),
        ({"number": "", "spans": ["a", "b\nc", ""], "date": {"year": "1990"}}, "a\nb c"),
        ({"number": "", "spans": [], "date": {"day": "17", "month": "August", "year": ""}}, "17 August"),
        ({"date": {"day": "", "month": "", "year": "1990"}}, "1990"),
        ({"number": "", "spans": [], "date": {"day": "", "month": "", "year": ""}}, None),
        ({"spans": [" "]}, None),
        ({}, None),
    ],
)
def test_an_official_record_becomes_its_number_else_its_spans_else_its_date(
    answer: dict[str, Any], gold: str | None
) -> None:
    assert alternative(answer) == gold


@pytest.mark.parametrize("answer", ["", " \n ", "\u200b", "\x00", "\ud800"])
@pytest.mark.parametrize("gold", ["12", "The", "!!!"])
def test_an_empty_prediction_is_always_wrong(gold: str, answer: str) -> None:
    assert judge(gold, answer) is Grade.UNPARSED_ANSWER


@pytest.mark.parametrize("gold", ["", "\n\n", "\u200b\n", (), "1" * (MAX_LENGTH + 1)])
@pytest.mark.parametrize("answer", ["", "12", "1" * (MAX_LENGTH + 1)])
def test_an_unreadable_gold_is_unscored_whatever_the_answer(gold: str, answer: str) -> None:
    assert judge(gold, answer) is Grade.UNPARSED_GOLD


def test_an_answer_over_the_limit_is_refused() -> None:
    assert judge("1", "1" * (MAX_LENGTH + 1)) is Grade.TOO_LARGE


@pytest.mark.parametrize(
    "answer",
    ["9" * 20_000, "9" * 19_990 + "e9999", "1e1 " * 5_000, "-" * 20_000, "a and " * 3_333, "[" * 20_000, ", " * 9_999 + "x"],
)  # fmt: skip
def test_a_hostile_answer_takes_no_time(answer: str) -> None:
    start = time.perf_counter()
    assert judge(("12", "1 and 2"), answer) is Grade.INCORRECT
    assert time.perf_counter() - start < 1


def spans(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def official_exact_match(call: dict[str, Any]) -> float:
    """What this grader says to one call of the official evaluation."""
    args, kwargs = call["args"], call["kwargs"]
    if call["fn"] == "get_metrics":
        predicted, gold = (spans(value) for value in (*args, *kwargs.values()))
        return float(exact_match(predicted, gold))
    annotations, predictions = args
    pairs = [pair for passage in annotations.values() for pair in passage["qa_pairs"]]
    golds = [(pair["answer"], *pair.get("validated_answers", ())) for pair in pairs]
    answers = [predictions.get(pair["query_id"], "") for pair in pairs]
    grades = [
        judge(tuple(alternative(record) or "" for record in records), answer)
        for records, answer in zip(golds, answers, strict=True)
    ]
    return grades.count(Grade.CORRECT) / len(grades)


@needs_data
def test_all_calls_of_the_official_tests_have_the_official_exact_match() -> None:
    calls = json.loads((DATA / "vectors/drop_official_cases.json").read_text())
    assert len(calls) == 57
    for call in calls:
        if call["fn"] == "_normalize_answer":
            assert normalise(*call["args"]) == call["result"]
        else:
            assert official_exact_match(call) == call["result"][0], call


@needs_data
def test_every_alternative_of_drop_is_right_for_its_question() -> None:
    lines = gzip.decompress((DATA / "benchmarks/drop.jsonl.gz").read_bytes()).decode().splitlines()
    golds = [tuple(json.loads(line)["ref_text"].split("|")) for line in lines]
    assert len(golds) == 9_536
    for alternatives in golds:
        for answer in alternatives:
            assert judge(answer, answer) is Grade.CORRECT
            assert judge(alternatives, f" {answer.lower()} ") is Grade.CORRECT, answer


@needs_data
def test_every_record_of_the_official_sample_is_right_against_itself() -> None:
    passages = json.loads((DATA / "benchmarks/drop_official_schema_sample.json").read_text()).values()
    pairs = [pair for passage in passages for pair in passage["qa_pairs"]]
    golds = [
        alternative(record)
        for pair in pairs
        for record in (pair["answer"], *pair.get("validated_answers", ()))
    ]
    assert golds and None not in golds
    for gold in filter(None, golds):
        assert judge(gold, gold) is Grade.CORRECT
        assert judge(gold, json.dumps(gold.split("\n")[::-1])) is Grade.CORRECT
