"""How confidences are written: the grids, the strict grammars, and the paper's prompts word for word."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.responses import FORMATS, Format, get_format, messages

PAPER = Path(__file__).parents[4] / "shared/paper.tex"

# k successes of n=50 with lambda=1/2: a right response implies k >= 1, a wrong one k <= 49.
TARGETS = sorted(
    {
        Fraction(k, 50) / 2 + Fraction(z, 2)
        for z in (0, 1)
        for k in range(51)
        if (k, z) not in {(0, 1), (50, 0)}
    }
)
GRIDS = {
    "probability": [f"{i // 100}.{i % 100:02d}" for i in range(101)],
    "probability-0.05": [f"{i // 20}.{i % 20 * 5:02d}" for i in range(21)],
    "integer": list("0123456789"),
    "linguistic": ["low", "medium", "high"],
}


def test_there_are_a_hundred_targets_without_one_half() -> None:
    assert [target * 100 for target in TARGETS] == [i for i in range(101) if i != 50]


def test_every_target_is_written_exactly_as_a_probability() -> None:
    written = [get_format("probability").render(target) for target in TARGETS]
    assert written == [f"0.{i:02d}" for i in range(100) if i != 50] + ["1.00"]


def test_every_target_goes_to_the_nearest_twentieth_and_halves_go_up() -> None:
    for target in TARGETS:
        hundredths = int(target * 100)
        nearest = (hundredths + 2) // 5 * 5
        expected = f"{nearest // 100}.{nearest % 100:02d}"
        assert get_format("probability-0.05").render(target) == expected


def test_every_target_goes_to_the_digit_floor_of_nine_c_plus_a_half() -> None:
    for target in TARGETS:
        hundredths = int(target * 100)
        assert get_format("integer").render(target) == str((18 * hundredths + 100) // 200)


def test_every_target_goes_to_the_label_of_its_third() -> None:
    written = [get_format("linguistic").render(target) for target in TARGETS]
    assert written == ["low"] * 34 + ["medium"] * 32 + ["high"] * 34  # 0-33, 34-66 without 50, 67-100


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("probability", Fraction(5, 1000), "0.01"),
        ("probability", Fraction(125, 1000), "0.13"),
        ("probability", Fraction(135, 1000), "0.14"),  # banker's rounding would keep one of the two
        ("probability", Fraction(285, 1000), "0.29"),  # as floats 0.285 * 100 is below the half
        ("probability", Fraction(2849, 10000), "0.28"),
        ("probability", Fraction(995, 1000), "1.00"),
        ("probability", Fraction(1, 3), "0.33"),
        ("probability-0.05", Fraction(25, 1000), "0.05"),
        ("probability-0.05", Fraction(24999, 1000000), "0.00"),
        ("probability-0.05", Fraction(975, 1000), "1.00"),
        ("integer", Fraction(1, 18), "1"),
        ("integer", Fraction(1, 18) - Fraction(1, 10**9), "0"),
        ("integer", Fraction(1, 2), "5"),
        ("integer", Fraction(17, 18), "9"),
        ("linguistic", Fraction(1, 3) - Fraction(1, 10**30), "low"),
        ("linguistic", Fraction(1, 3), "medium"),
        ("linguistic", Fraction(2, 3) - Fraction(1, 10**30), "medium"),
        ("linguistic", Fraction(2, 3), "high"),
    ],
)
def test_values_between_grid_points_are_rounded_exactly(name: str, value: Fraction, text: str) -> None:
    assert get_format(name).render(value) == text


@pytest.mark.parametrize("name", FORMATS)
def test_the_ends_of_the_range_are_the_ends_of_the_grid(name: str) -> None:
    rendered = [get_format(name).render(Fraction(end)) for end in (0, 1)]
    assert rendered == [GRIDS[name][0], GRIDS[name][-1]]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", [Fraction(-1, 10**9), Fraction(10**9 + 1, 10**9)])
def test_a_value_outside_the_unit_interval_is_refused(name: str, value: Fraction) -> None:
    with pytest.raises(ValueError, match="outside"):
        get_format(name).render(value)


@pytest.mark.parametrize("name", FORMATS)
def test_reading_a_grid_text_and_writing_it_again_changes_nothing(name: str) -> None:
    confidence_format = get_format(name)
    values = [confidence_format.read(text) for text in GRIDS[name]]
    assert [confidence_format.render(value) for value in values if value is not None] == GRIDS[name]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("probability", "0.00", Fraction(0)),
        ("probability", "0.07", Fraction(7, 100)),
        ("probability", "0.73", Fraction(73, 100)),
        ("probability", "1.00", Fraction(1)),
        ("probability-0.05", "0.75", Fraction(3, 4)),
        ("probability-0.05", "0.73", Fraction(73, 100)),  # the grammar is that of the finer grid
        ("integer", "0", Fraction(0)),
        ("integer", "7", Fraction(7, 9)),
        ("integer", "9", Fraction(1)),
        ("linguistic", "low", Fraction(1, 4)),
        ("linguistic", "medium", Fraction(1, 2)),
        ("linguistic", "high", Fraction(3, 4)),
    ],
)
def test_texts_are_read_as_exact_rationals(name: str, text: str, value: Fraction) -> None:
    found = get_format(name).read(text)
    assert isinstance(found, Fraction)
    assert found == value


# What float(), int() or str.isdigit() would take for a number, and other near misses.
NEVER = [
    "", " ", "nan", "NaN", "inf", "-inf", "infinity", "1_0", "0_0", "0x1", "١", "٠.٥٠", "０．５０", "７", "0.٥0", "²", "½",
    "+5", "-1", "1e-1", "5e0", "0.50 ", " 0.50", "0.50\n", "7\n", "\n7", "high\n", " high", "0.5\u00a0", "0,50", "0.5O",
    "LOW", "High", "lowmedium", "low|medium", "very high", "hіgh", "None", "true", "\0", "0.50\0",
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", NEVER)
def test_no_format_reads_anything_outside_its_grammar(name: str, text: str) -> None:
    assert get_format(name).read(text) is None


NOT_PROBABILITIES = [
    ".50", "0.5", "0.500", "0.", "0", "1", "1.", "1.0", "1.000", "1.01", "1.10", "2.00", "00.50", "01.00", "95%", "0.95%",
    "+0.50", "-0.50", "-0.00", "0.5_0", "50", "0 .50", "0. 50", "1/2", "(0.50)", "0.50.", "0.50 0.60", "0.501.00", "high",
]  # fmt: skip


@pytest.mark.parametrize("name", ["probability", "probability-0.05"])
@pytest.mark.parametrize("text", NOT_PROBABILITIES)
def test_a_probability_has_one_digit_and_two_decimals(name: str, text: str) -> None:
    assert get_format(name).read(text) is None


@pytest.mark.parametrize("text", ["10", "00", "07", "7.0", "0.70", "7/9", "7%", "seven", "low"])
def test_an_integer_confidence_is_one_ascii_digit(text: str) -> None:
    assert get_format("integer").read(text) is None


@pytest.mark.parametrize("text", ["0.50", "5", "lo", "highest", "medium.", "mid"])
def test_a_label_is_one_of_three_words(text: str) -> None:
    assert get_format("linguistic").read(text) is None


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("probabilty", "probability"),
        ("integers", "integer"),
        ("lingustic", "linguistic"),
        ("probability-0.5", "probability-0.05"),
    ],
)
def test_an_unknown_format_is_refused_with_the_nearest_name(wrong: str, nearest: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"'{wrong}'; did you mean '{nearest}'?")):
        get_format(wrong)


def test_a_name_like_no_format_is_refused_with_the_whole_list() -> None:
    with pytest.raises(InputError, match=r"probability, probability-0\.05, integer, linguistic") as refusal:
        get_format("zzz")
    assert "did you mean" not in str(refusal.value)


def test_a_question_is_asked_with_the_system_prompt_and_the_released_user_turn() -> None:
    conversation = messages("What is {2}+2?", get_format("integer"))
    assert conversation == [
        {"role": "system", "content": get_format("integer").system_prompt},
        {"role": "user", "content": "\n\nPROBLEM: What is {2}+2?\n\n"},
    ]


def prompts_of_the_paper() -> dict[str, str]:
    """The rows of the paper's table of prompts, without LaTeX, white space collapsed."""
    latex = PAPER.read_text(encoding="utf-8")
    table = latex.split("%% file: tables/format_prompts.tex")[1].split(r"\bottomrule")[0]
    rows = [row.strip().removesuffix(r"\\") for row in table.split(r"\midrule")[1:]]
    cells = (row.split("&", 1) for row in rows)
    return {
        name.strip(): " ".join(re.sub(r"\\texttt\{([^}]*)\}", r"\1", prompt).split())
        for name, prompt in cells
    }


@pytest.mark.skipif(not PAPER.is_file(), reason=f"the paper's source is not at {PAPER}")
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("probability", "Probability"),
        ("probability-0.05", "Probability"),
        ("integer", "Integer"),
        ("linguistic", "Linguistic"),
    ],
)
def test_system_prompts_are_the_papers_word_for_word(name: str, row: str) -> None:
    prompts = prompts_of_the_paper()
    assert set(prompts) == {"Probability", "Integer", "Linguistic"}
    assert " ".join(get_format(name).system_prompt.split()) == prompts[row]


def test_system_prompts_are_single_spaced_lines() -> None:
    for confidence_format in FORMATS.values():
        assert isinstance(confidence_format, Format)
        assert confidence_format.system_prompt == " ".join(confidence_format.system_prompt.split())


def test_a_format_is_listed_under_its_own_name() -> None:
    assert {name: entry.name for name, entry in FORMATS.items()} == {name: name for name in GRIDS}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)), ("1", Fraction(1)), ("0.", Fraction(0)), ("1.", Fraction(1)), ("1.0", Fraction(1)),
        ("0.9", Fraction(9, 10)), (".5", Fraction(1, 2)), ("0.875", Fraction(7, 8)), ("1.000", Fraction(1)),
        ("0.12345678901234567890", Fraction(1234567890123456789, 10**19)),
    ],
)  # fmt: skip
def test_scores_read_any_plain_decimal_exactly(text: str, value: Fraction) -> None:
    for name in ("probability", "probability-0.05"):
        assert get_format(name).stated(text) == value


@pytest.mark.parametrize(
    "text",
    ["", ".", "1.01", "1.00000000000000000001", "2", "10", "50.", "00.5", "01", "-0", "+0.5", "-0.5", "1e-1", "5E-1", "nan", "inf", "0x1",
     "0_1", "0.5_0", "50%", "0.5%", "0,5", "1/2", "0.5.", "0..5", "0. 5", " 0.5", "0.5\n", "٠.٥", "０.５", "0．5", "½", "𝟎.𝟓", "0.5\u200b",
     "0." + "1" * 21, "0." + "1" * 100_000],
)  # fmt: skip
def test_what_is_no_plain_decimal_is_unreadable(text: str) -> None:
    assert get_format("probability").stated(text) is None


@pytest.mark.parametrize("name", ["integer", "linguistic"])
def test_where_no_decimal_is_asked_for_scores_read_the_grammar_alone(name: str) -> None:
    chosen = get_format(name)
    assert [chosen.stated(text) for text in chosen.words] == [chosen.read(text) for text in chosen.words]
    for text in ("0.9", "1.0", "07", "10", "High", "very high"):
        assert chosen.stated(text) is None


@pytest.mark.parametrize("name", FORMATS)
def test_a_value_comes_back_from_the_float_of_a_table(name: str) -> None:
    chosen = get_format(name)
    texts = (*chosen.words, *(("0.9", "0.875", "0.000012345", "0.123456789012345") if chosen.decimal else ()))
    for text in texts:
        value = chosen.stated(text)
        assert value is not None and chosen.exact(float(value)) == value
