"""The response inspector in a real browser: filters, reading a question, hostile text, and very many responses."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.report.page import write_page
from calibsft.report.summary import ModelResult, Responses, RunSummary

HOSTILE = (
    "<script>document.title='taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "</script></style></textarea><svg onload=\"document.title='taken'\">",
    "<!-- --><iframe src=http://evil.example></iframe> & &lt;b&gt; \u202egnp.exe\x1b[31m",
)
MANY = 100_000


def responses(label: str, confidences: list[float | None], training: bool = False) -> Responses:
    """Two benchmarks of questions with four samples each; every other response is right."""
    count = len(confidences)
    rows = pl.DataFrame(
        {
            "dataset": ["aime" if i % 8 < 4 else "drop" for i in range(count)],
            "question_id": [str(i // 4) for i in range(count)],
            "sample": pl.Series([i % 4 for i in range(count)], dtype=pl.Int32),
            "correct": [i % 2 == 0 for i in range(count)],
            "confidence": pl.Series(confidences, dtype=pl.Float64),
            "answer": [f"answer {i}" for i in range(count)],
            "reason": ["ok" if value is not None else "bad_confidence" for value in confidences],
            "response": [
                f"<think>because {i}</think> <answer>answer {i}</answer> <confidence>{value}</confidence>"
                for i, value in enumerate(confidences)
            ],
        }
    )
    if training:
        tokens = [["<think>", "why", "</think>", "<confidence>", "0.10", "</confidence>"]] + [None] * (
            count - 1
        )
        rows = rows.with_columns(
            target=pl.Series(["0.10"] * count),
            tokens=pl.Series(tokens, dtype=pl.List(pl.String)),
            roles=pl.Series([[1, 1, 0, 2, 2, 2]] + [None] * (count - 1), dtype=pl.List(pl.Int8)),
        )
    questions = rows.select("dataset", "question_id").unique(maintain_order=True)
    questions = questions.with_columns(
        question=pl.lit("what is ") + pl.col("question_id"), gold=pl.lit(["gold"], dtype=pl.List(pl.String))
    )
    return Responses(label, training, rows, questions, count)


def summary(*origins: Responses) -> RunSummary:
    scored = origins[0].rows.with_columns(split=pl.lit("id"), well_formed=pl.col("confidence").is_not_null())
    return RunSummary(
        name="small",
        models=(ModelResult("Base", scored),),
        recipe_yaml="seed: 0\n",
        command="calibsft report small",
        responses=origins,
    )


CONFIDENCES: list[float | None] = [i / 40 for i in range(39)] + [None]


@pytest.fixture
def page(tmp_path: Path, open_page: Any) -> Any:
    origins = responses("Base", CONFIDENCES), responses("Tuned", [0.5] * 40)
    opened = open_page(write_page(summary(*origins), tmp_path / "report.html"))
    yield opened.page
    assert opened.complaints == []


def shown(page: Any) -> str:
    return page.inner_text("#shown-count")


def wait_for_text(page: Any, selector: str, text: str) -> None:
    """Until an element has just this text; asked from outside, since the page's policy lets nobody evaluate code in it."""
    page.locator(selector, has_text=re.compile(f"^{re.escape(text)}$")).first.wait_for()


def test_filters_narrow_the_list_to_what_the_rows_say(page: Any) -> None:
    assert shown(page) == "80 of 80 responses"
    page.select_option("#filter-origin", label="Base")
    assert shown(page) == "40 of 80 responses"
    page.select_option("#filter-benchmark", "aime")
    assert shown(page) == "20 of 80 responses"
    page.select_option("#filter-verdict", "1")
    assert shown(page) == "10 of 80 responses"
    page.fill("#filter-low", "0.4")
    page.fill("#filter-high", "0.65")
    rows = responses("Base", CONFIDENCES).rows
    expected = rows.filter(
        pl.col("correct") & (pl.col("dataset") == "aime") & pl.col("confidence").is_between(0.4, 0.65)
    )
    assert expected["confidence"].to_list() == [0.4, 0.45, 0.6, 0.65] and shown(page) == "4 of 80 responses"
    numbers = page.locator(".row .number").all_inner_texts()
    assert numbers == [f"{value:.2f}" for value in expected["confidence"]]
    page.click("button[type=reset]")
    wait_for_text(page, "#shown-count", "80 of 80 responses")


def test_unreadable_confidences_and_text_can_be_looked_for(page: Any) -> None:
    page.select_option("#filter-verdict", "unreadable")
    assert shown(page) == "1 of 80 responses" and page.locator(".row .number").all_inner_texts() == ["–"]
    page.select_option("#filter-verdict", "")
    page.fill("#filter-text", "ANSWER 39")
    assert shown(page) == "2 of 80 responses"
    page.fill("#filter-text", "nothing like it")
    assert shown(page) == "0 of 80 responses"
    assert page.locator("#list-empty").is_visible()


def test_a_button_finds_confident_mistakes_with_the_surest_first(page: Any) -> None:
    page.click("#confidently-wrong")
    numbers = [float(text) for text in page.locator(".row .number").all_inner_texts()]
    wrong = [value for i, value in enumerate(CONFIDENCES) if i % 2 and value is not None and value >= 0.9]
    assert numbers == pytest.approx(sorted(wrong, reverse=True), abs=0.006) and len(numbers) == 1
    page.click("#doubtfully-right")
    numbers = [float(text) for text in page.locator(".row .number").all_inner_texts()]
    assert numbers == sorted(numbers) and len(numbers) == 7


def test_responses_can_be_ordered_by_confidence_with_unreadable_ones_last(page: Any) -> None:
    page.select_option("#filter-origin", label="Base")
    for order, wanted in (("falling", ["0.95", "0.93", "0.90"]), ("rising", ["0.00", "0.03", "0.05"])):
        page.select_option("#filter-order", order)
        assert page.locator(".row .number").all_inner_texts()[:3] == wanted
        page.evaluate("() => { const l = document.getElementById('list'); l.scrollTop = l.scrollHeight; }")
        page.locator(".row .number", has_text="–").wait_for()


def test_a_bar_of_the_histogram_narrows_the_range(page: Any) -> None:
    page.select_option("#filter-origin", label="Tuned")
    heights = page.locator("#histogram .bin").evaluate_all("bars => bars.map(bar => bar.title)")
    assert heights[10] == "0.50 to 0.55: 20 correct, 20 other" and len(heights) == 20
    page.locator("#histogram .bin").nth(3).click()
    assert (page.input_value("#filter-low"), page.input_value("#filter-high")) == ("0.15", "0.19")
    assert shown(page) == "0 of 80 responses"


def test_a_question_shows_all_its_rollouts_of_the_model_and_how_the_others_did(page: Any) -> None:
    page.locator(".row").nth(9).click()  # by question: eight rows of question 0, then those of question 1
    wait_for_text(page, "#detail .question", "what is 1")
    assert page.inner_text("#detail .golds") == "Right answer: gold"
    assert page.locator("#detail .rollout").count() == 4
    assert page.locator("#detail .rollout[open] .says").inner_text() == "says 0.13"
    assert "because 5" in page.inner_text("#detail .rollout[open] .response")
    lines = page.locator("#detail .origins tbody tr").all_inner_texts()
    assert [line.split("\t") for line in lines] == [
        ["Base", "4", "50.0 %", "0.14"],
        ["Tuned", "4", "50.0 %", "0.50"],
    ]
    page.click("#detail .origins button:has-text('Tuned')")
    assert page.locator("#detail .says").all_inner_texts() == ["says 0.50"] * 4


def test_keys_move_through_the_list(page: Any) -> None:
    page.focus("#list")
    for _ in range(8):
        page.keyboard.press("ArrowDown")
    wait_for_text(page, "#detail .question", "what is 1")
    assert page.locator(".row[aria-selected=true]").count() == 1


def test_tokens_are_coloured_by_what_supervised_them(tmp_path: Path, open_page: Any) -> None:
    origins = responses("Base", CONFIDENCES), responses("Training set", CONFIDENCES, training=True)
    page = open_page(write_page(summary(*origins), tmp_path / "report.html")).page
    page.select_option("#filter-origin", label="Training set")
    page.locator(".row").first.click()
    page.wait_for_selector("#detail .token")
    classes = page.locator("#detail .token").evaluate_all("tokens => tokens.map(token => token.className)")
    assert classes == ["token reasoning"] * 2 + ["token untrained"] + ["token confidence"] * 3
    summaries = page.locator("#detail .rollout summary").all_inner_texts()
    assert (
        "target 0.10" in summaries[0]
        and "in the training set" in summaries[0]
        and "not drawn" in summaries[1]
    )
    colours = {
        name: page.locator(f"#detail .token.{name}").first.evaluate(
            "e => getComputedStyle(e).backgroundColor"
        )
        for name in ("reasoning", "confidence", "untrained")
    }
    assert len(set(colours.values())) == 3


def hostile_origin() -> Responses:
    origin = responses(HOSTILE[0], [0.5] * 4)
    spoilt = {name: pl.Series(name, list(HOSTILE)) for name in ("answer", "response")}
    rows = origin.rows.with_columns(**spoilt, dataset=pl.lit(HOSTILE[1]), question_id=pl.lit(HOSTILE[2]))
    questions = pl.DataFrame(
        {
            "dataset": [HOSTILE[1]],
            "question_id": [HOSTILE[2]],
            "question": [HOSTILE[3]],
            "gold": [list(HOSTILE)],
        }
    )
    return Responses(HOSTILE[0], False, rows, questions, 4)


def test_hostile_responses_are_shown_as_text_and_ask_for_nothing(tmp_path: Path, open_page: Any) -> None:
    written = write_page(summary(hostile_origin()), tmp_path / "report.html")
    opened = open_page(written)
    page = opened.page
    page.locator(".row").first.click()
    page.wait_for_selector("#detail .rollout")
    for place in range(1, 4):
        page.locator("#detail .rollout summary").nth(place).click()
    page.locator("#detail .response").nth(3).wait_for()
    texts = page.locator("#detail .response").all_inner_texts()
    assert texts == list(HOSTILE)
    assert page.inner_text("#detail .question") == HOSTILE[3]
    assert page.locator("#inspector img, #inspector iframe, #inspector svg, #inspector script").count() == 0
    assert page.title() == "small · calibsft report"
    assert opened.requests == [written.as_uri()] and opened.complaints == []


def test_a_hundred_thousand_responses_keep_the_page_small_and_every_one_can_be_reached(
    tmp_path: Path, open_page: Any
) -> None:
    origin = responses("Base", [i % 101 / 100 for i in range(MANY)])
    page = open_page(write_page(summary(origin), tmp_path / "report.html")).page
    assert shown(page) == "100,000 of 100,000 responses"
    for share in (0.0, 0.5, 1.0):
        page.evaluate(
            "share => { const l = document.getElementById('list'); l.scrollTop = share * l.scrollHeight; }",
            share,
        )
        first = round(share * (MANY - 1))
        wait_for_text(page, ".row .answer", f"answer {first}")
        assert page.locator(".row").count() < 60
    page.locator(f".row:has-text('answer {MANY - 1}')").click()
    wait_for_text(page, "#detail .question", f"what is {MANY // 4 - 1}")
    page.select_option("#filter-verdict", "0")
    page.fill("#filter-low", "0.95")
    expected = sum(i % 2 == 1 and i % 101 >= 95 for i in range(MANY))
    assert shown(page) == f"{expected:,} of 100,000 responses"
