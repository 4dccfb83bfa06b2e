"""The grader `set`: all members of the set, in whatever form they are listed, and nothing else."""

import json
import time
from pathlib import Path

import pytest

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.sets import SET, json_list
from calibsft.verify.text import MAX_LENGTH

WEBQUESTIONS = Path(__file__).parents[4] / "shared/data/benchmarks/webquestions.jsonl"

LANGUAGES = ("Jamaican Creole English Language", "Jamaican English")
MUSICIANS = ("Simon and Garfunkel", "Bob Dylan")
COLLEGES = ("Trinity College, Cambridge", "Nelson College", "University of Canterbury")
ISLES = ("England", "Scotland", "Wales")


def judge(golds: str | tuple[str, ...], answer: str) -> Grade:
    return SET.grade(GradeItem("set", golds, answer))


@pytest.mark.parametrize(
    "golds, answer",
    [
        (LANGUAGES, "Jamaican English, Jamaican Creole English Language"),
        (LANGUAGES, '["jamaican english", "Jamaican Creole English Language"]'),
        (LANGUAGES, "['Jamaican English', 'Jamaican Creole English Language']"),
        (ISLES, "England, Scotland and Wales"),
        (ISLES, "Wales, England, and Scotland."),
        (ISLES, "Wales,England,and Scotland"),
        (ISLES, "England; Scotland; Wales"),
        (ISLES, "England\r\nScotland\r\nWales"),
        (ISLES, "- Wales\n- England\n- Scotland\n"),
        (ISLES, "England, Wales, Scotland, England"),
        (ISLES, '["England", "england", "Wales", "Scotland", ""]'),
        (("Los Angeles, California",), "Los Angeles, California"),
        (("Los Angeles, California",), "Los Angeles California"),
        (("Los Angeles, California",), '["Los Angeles, California"]'),
        (("Trinidad and Tobago",), "Trinidad and Tobago"),
        (MUSICIANS, "Simon and Garfunkel, Bob Dylan"),
        (MUSICIANS, "Bob Dylan, Simon and Garfunkel"),
        (MUSICIANS, "Simon and Garfunkel and Bob Dylan"),
        (MUSICIANS, "Bob Dylan and Simon and Garfunkel"),
        (MUSICIANS, "Bob Dylan\nSimon and Garfunkel"),
        (COLLEGES, "Nelson College, Trinity College, Cambridge, and University of Canterbury"),
        (("Washington", "Washington, D.C."), "Washington, Washington, D.C."),
        (("London", "England", "London, England"), "London\nEngland\nLondon, England"),
        (("London", "England", "London, England"), "London; England; London, England"),
        (
            ("London", "England", "London, England", *MUSICIANS[:1]),
            "London\nEngland\nLondon, England\nSimon and Garfunkel",
        ),
        (("Anne", "John", "Anne and John"), "Anne, John, Anne and John"),
        (("Eton", "Trinity College, Cambridge", "Yale"), "Eton and Trinity College, Cambridge, Yale"),
        (('["a", "b"]',), '["a", "b"]'),
        (("Emma", "And Then There Were None"), "Emma and And Then There Were None"),
        (("1889", "1.5"), "[1889, 1.5]"),
        (("The The", "!!!"), "The The, !!!"),
        (("café", "thé"), '["caf\\u00e9", "th\\u00e9\\u200b"]'),
        (("English", "english"), "English"),
        (("Campfire Stories;Comes Around", "The Lorax"), "The Lorax, Campfire Stories; Comes Around"),
    ],
)
def test_the_whole_set_is_right_in_any_order_and_form(golds: tuple[str, ...], answer: str) -> None:
    assert judge(golds, answer) is Grade.CORRECT


@pytest.mark.parametrize(
    "golds, answer",
    [
        (LANGUAGES, "Jamaican English"),
        (LANGUAGES, '["Jamaican English"]'),
        (LANGUAGES, "Jamaican English, Jamaican Creole English Language, Patois"),
        (LANGUAGES, '["Jamaican English", "Jamaican Creole English Language", "Patois"]'),
        (ISLES, "England and Scotland"),
        (ISLES, "England, Scotland, Wales or Ireland"),
        (ISLES, "[]"),
        (ISLES, "and"),
        (ISLES, ", ; ,"),
        (("and", "Bob"), "Bob"),
        (MUSICIANS, "Simon, Garfunkel"),
        (("Simon and Garfunkel",), "Simon"),
        (("Simon and Garfunkel",), "Simon, Garfunkel"),
        (("Simon and Garfunkel",), "Garfunkel and Simon"),
        (("Los Angeles, California",), "Los Angeles and California"),
        (("Washington", "Washington, D.C."), "Washington, D.C."),
        (("Los Angeles, California",), "Los Angeles"),
        (("Los Angeles", "California"), '["Los Angeles, California"]'),
        (("true",), "[true]x"),
    ],
)
def test_a_part_of_the_set_or_more_than_it_is_wrong(golds: tuple[str, ...], answer: str) -> None:
    assert judge(golds, answer) is Grade.INCORRECT


def test_the_word_and_inside_a_name_does_not_separate() -> None:
    assert judge(("Poland", "Andorra"), "Andorra, Poland") is Grade.CORRECT
    assert judge(("Pol", "orra"), "Poland, Andorra") is Grade.INCORRECT


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '"a"', "[NaN]", "[true]", "[null]", '[["a"]]', "['a']", "[" * 10_000, '["a"', ""]
)
def test_only_a_json_list_of_strings_and_numbers_is_read_as_one(text: str) -> None:
    assert json_list(text) is None


def test_numbers_of_a_json_list_keep_their_digits() -> None:
    digits = "9" * 10_000
    assert json_list(f'[1, 2.50, -3e5, "x", {digits}]') == ["1", "2.50", "-3e5", "x", digits]


@pytest.mark.parametrize(
    "golds", [(), ("",), ("Paris", ""), ("Paris", "\u200b"), ("x" * (MAX_LENGTH + 1), "y")]
)
@pytest.mark.parametrize("answer", ["", "Paris", "x" * (MAX_LENGTH + 1)])
def test_a_set_with_an_unreadable_member_is_unscored_whatever_the_answer(
    golds: tuple[str, ...], answer: str
) -> None:
    assert judge(golds, answer) is Grade.UNPARSED_GOLD


@pytest.mark.parametrize("answer", ["", "\n", "\u200b\x00", "\udfff"])
def test_an_empty_prediction_is_always_wrong(answer: str) -> None:
    assert judge("Paris", answer) is Grade.UNPARSED_ANSWER


@pytest.mark.parametrize(
    "answer",
    ["a," * 10_000, "[" * 20_000, '["a",' * 4_000, "and " * 5_000, "a and " * 3_000, "\n" * 9_999 + "x"],
)
def test_a_hostile_answer_takes_no_time(answer: str) -> None:
    golds = tuple(f"a, a{n}" for n in range(1_000))
    start = time.perf_counter()
    assert judge(golds, answer) is Grade.INCORRECT
    assert time.perf_counter() - start < 1


def test_an_answer_over_the_limit_is_refused() -> None:
    assert judge("a", "a" * (MAX_LENGTH + 1)) is Grade.TOO_LARGE


@pytest.mark.skipif(not WEBQUESTIONS.is_file(), reason="the shared benchmarks are not here")
def test_every_gold_of_webquestions_is_right_against_itself() -> None:
    sets = [tuple(json.loads(line)["answer"]) for line in WEBQUESTIONS.read_text().splitlines()]
    assert len(sets) == 2_032
    for golds in sets:
        turned = golds[::-1]
        assert judge(golds, json.dumps(turned)) is Grade.CORRECT, golds
        assert judge(golds, "\n".join(turned)) is Grade.CORRECT, golds
        if not any("," in gold or ";" in gold for gold in golds):
            assert judge(golds, ", ".join(turned)) is Grade.CORRECT, golds
            assert judge(golds, " and ".join([", ".join(turned[:-1]), turned[-1]])) is Grade.CORRECT, golds
        if len(set(map(str.lower, golds))) > 1:
            assert judge(golds, json.dumps(turned[1:])) is Grade.INCORRECT, golds
        assert judge(golds, json.dumps([*turned, "something else"])) is Grade.INCORRECT, golds
