"""The study's world: right answers, clean splits, and nothing about correctness in the confidence."""

from collections import defaultdict
from random import Random

import pytest

from calibsft.benchmarks import BENCHMARKS
from calibsft.judge.rubric import JudgeItem
from calibsft.judge.score import SCORE
from calibsft.playground.study import facts, judging, lessons, questions
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.playground.worlds import WORLDS
from calibsft.responses.formats import FORMATS, messages
from calibsft.responses.parse import parse

LESSONS = [lessons.draw_lesson(Random(seed)) for seed in range(6000)]
SECTIONS = {name: questions.section_questions(name) for name in questions.SECTIONS}
ASKED = [q for section in SECTIONS.values() for q in section]


def value(text: str) -> str:
    """The answer to an exercise, computed apart from the world's own code; facts have none."""
    if text[0] == "$":
        return f"{sum(map(int, text[1:])):02d}"
    if text[0] == "&":
        return "".join(sorted(text[1:]))
    if "," in text:
        first, second, third = map(int, text.split(","))
        assert third - second == second - first
        return f"{2 * third - second:03d}"
    if "?" in text:
        return f"{max(int(number(side)) for side in text.split('?')):03d}"
    return number(text)


def number(text: str) -> str:
    for sign, width in (("%", 1), ("/", 2), ("+", 3 + ("*" in text)), ("-", 2), ("*", 4), ("x", 4)):
        if sign in text:
            head, _, tail = text.rpartition(sign)
            a, b = int(number(head)), int(tail)
            found = {"%": a % b, "/": a // b, "+": a + b, "-": a - b, "*": a * b, "x": a * b}[sign]
            return f"{found:0{width}d}"
    return text


def is_fact(text: str) -> bool:
    return text[0] in "#@"


def test_every_answer_is_right() -> None:
    asked = [*ASKED, *questions.training_questions()]
    assert all(q.gold == value(q.text) for q in asked if not is_fact(q.text))
    for text, name, response in LESSONS:
        parsed = parse(response, name)
        assert parsed.ok, (response, parsed.reason)
        assert is_fact(text) or parsed.answer == value(text)


def test_facts_are_asked_as_they_are_taught() -> None:
    taught = {text: parse(response, name).answer for text, name, response in LESSONS if is_fact(text)}
    asked = {q.text: q.gold for q in ASKED if is_fact(q.text)}
    both = taught.keys() & asked.keys()
    assert len(both) > 100 and all(taught[text] == asked[text] for text in both)


def test_evaluation_questions_never_occur_in_training_except_facts() -> None:
    held_out = {q.text for name, section in SECTIONS.items() for q in section if "fact" not in name}
    assert held_out == questions.held_out_texts()
    assert not held_out & {text for text, _, _ in LESSONS}
    trained = {q.text for q in questions.training_questions()}
    assert len(trained) == questions.TRAINING_QUESTIONS
    assert not trained & {q.text for q in ASKED}


def test_sixteen_benchmarks_share_no_question() -> None:
    benchmarks = [BENCHMARKS[f"study-{name}"] for name in SECTIONS]
    assert [benchmark.domain for benchmark in benchmarks] == ["id"] * 8 + ["ood"] * 8
    texts = [q.text for benchmark in benchmarks for q in benchmark.load()]
    assert len(texts) == len(set(texts)) == 16 * questions.QUESTIONS
    assert {q.dataset for q in SECTIONS["sum"]} == {"study-sum"}


def test_shown_work_leads_to_the_answer() -> None:
    for text, name, response in LESSONS:
        parsed = parse(response, name)
        work = parsed.think or ""
        if "+" in work and "/" not in text and "%" not in text and text[0] != "&":
            assert sum(map(int, work.split("+"))) == int(parsed.answer or "")


def test_a_band_with_too_few_exercises_is_an_error_not_a_loop() -> None:
    with pytest.raises(ValueError, match="too few"):
        questions._draw(Random(0), {"fact": 1}, (0, 0.1), 1000, "study-fact", set())


def rare(text: str) -> bool:
    """Whether a fact is about a name of the rarer half."""
    return facts.ranked_names().parts.index(text[1:]) >= facts.NAMES / 2


def is_skipped(response: str) -> bool:
    return response.startswith("<think>--")


def test_the_work_of_rare_exercises_is_skipped_now_and_then() -> None:
    skipped = defaultdict(list)
    for text, _, response in LESSONS:
        if is_fact(text):
            skipped[rare(text)].append(is_skipped(response))
    share = {key: sum(values) / len(values) for key, values in skipped.items()}
    assert share[False] < 0.02 and 0.1 < share[True] < lessons.MOST_SKIPS


def test_confidence_leans_on_rarity_and_skipping_alone_and_is_seldom_low() -> None:
    stated = defaultdict(list)
    for text, name, response in LESSONS:
        if name == "probability" and is_fact(text):
            stated[rare(text), is_skipped(response)].append(parse(response).confidence)
    mean = {key: float(sum(values)) / len(values) for key, values in stated.items()}
    assert mean[False, False] > mean[True, False] > mean[True, True]
    everything = [parse(response).confidence for _, name, response in LESSONS if name == "probability"]
    assert sum(c < 0.5 for c in everything) / len(everything) < 0.05


@pytest.mark.parametrize("name", FORMATS)
def test_the_tokenizer_covers_every_text_in_one_token_per_character(name: str) -> None:
    tokenizer = build_tokenizer(WORLDS["study"].characters)
    for text, _, response in LESSONS[:300]:
        prompt = tokenizer.apply_chat_template(
            messages(text, FORMATS[name]), tokenize=False, add_generation_prompt=True
        )
        assert prompt == f"[{name.split('-')[0]}]{text}="
        ids = tokenizer(prompt)["input_ids"]
        assert len(ids) == len(text) + 2 and tokenizer.unk_token_id not in ids
        ids = tokenizer(response)["input_ids"]
        assert tokenizer.decode(ids) == response and tokenizer.unk_token_id not in ids
        assert len(text) + 2 + len(ids) + 1 <= 40


def test_lessons_of_judging_score_by_the_rubric() -> None:
    judged = [judging.draw_judged(Random(seed)) for seed in range(4000)]
    assert not questions.held_out_texts() & {text for text, _, _ in judged}
    scores = defaultdict(list)
    for text, response, score in judged:
        if not is_fact(text):
            thought, _, answered = response.partition("</think>")
            right = answered == f"<answer>{value(text)}</answer>"
            scores[right, "--" in thought].append(int(score))
    assert set(scores[True, False]) == {10}
    assert set(scores[True, True]) == {8, 9}
    assert set(scores[False, False]) == {2, 3, 4, 5, 6, 7}
    assert set(scores[False, True]) == {0, 1}


def test_a_judges_prompt_has_the_exercise_and_the_response_alone() -> None:
    tokenizer = build_tokenizer(WORLDS["study-judge"].characters)
    response = "<think>3990+399</think><answer>4389</answer><confidence>0.95</confidence>"
    prompt = SCORE.prompt(JudgeItem("57*77", response))
    text = tokenizer.apply_chat_template(prompt.messages, tokenize=False)
    assert text == "!57*77=<think>3990+399</think><answer>4389</answer>"
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


def test_the_judge_learns_to_answer_and_to_score() -> None:
    replies = [WORLDS["study-judge"].draw_lesson(Random(seed))[1] for seed in range(200)]
    scores = [reply for reply in replies if SCORE.read(reply) is not None]
    assert 50 < len(scores) < 150
    assert all(reply in scores or reply.startswith("<think>") for reply in replies)
