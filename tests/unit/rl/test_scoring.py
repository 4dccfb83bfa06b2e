"""From sampled responses to rewards: which tokens state confidence, what is right, and what a step looked like.

Token sets are checked for a tokenizer with one token per tag and for ones that merge over tag borders.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import log

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from calibsft.engines.engine import Completion
from calibsft.judge.rubric import Prompt
from calibsft.responses.formats import FORMATS
from calibsft.responses.spans import TokenOffsets, decode
from calibsft.rl.advantages import advantages_of
from calibsft.rl.batches import overlong_penalty, rewards_of, rows_of
from calibsft.rl.dynamics import step_metrics, step_record
from calibsft.rl.method import Group, TokenSet
from calibsft.rl.methods import METHODS
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.scoring import Response, ScoredGroup, Scorer
from calibsft.rl.token_sets import confidence_tokens
from calibsft.verify import VerifierPool
from calibsft.verify.grader import GradeItem
from calibsft.verify.verifier import Verifier, grade_item
from judge_server import answer_judge
from many_tokenizers import Build, byte_level, each_tokenizer, encode, playground

THINK, ANSWER, CONFIDENCE = "<think>57*7</think>", "<answer>399</answer>", "<confidence>0.73</confidence>"
WHOLE = THINK + ANSWER + CONFIDENCE

# What each set marks of the text, without the end-of-sequence token; and whether that one is marked.
CASES = {
    "all is one segment": (TokenSet.ALL, WHOLE, "", False),
    "the tag": (TokenSet.CONFIDENCE_TAG, WHOLE, CONFIDENCE, False),
    "the last tag": (TokenSet.CONFIDENCE_TAG, WHOLE + "<confidence>0.1</confidence>", "<confidence>0.1</confidence>", False),
    "the last whole tag": (TokenSet.CONFIDENCE_TAG, WHOLE + "<confidence>0.1", CONFIDENCE, False),
    "a tag before the answer": (TokenSet.CONFIDENCE_TAG, CONFIDENCE + ANSWER, CONFIDENCE, False),
    "no tag": (TokenSet.CONFIDENCE_TAG, THINK + ANSWER, "", False),
    "a tag that is never closed": (TokenSet.CONFIDENCE_TAG, THINK + ANSWER + "<confidence>0.7", "", False),
    "a tag that closes before it opens": (TokenSet.CONFIDENCE_TAG, "</confidence>7<confidence>", "", False),
    "after the answer": (TokenSet.POST_ANSWER, WHOLE, CONFIDENCE, True),
    "after the last answer": (TokenSet.POST_ANSWER, ANSWER + WHOLE + "77", CONFIDENCE + "77", True),
    "a tag before the last answer is not after it": (TokenSet.POST_ANSWER, WHOLE + ANSWER + "=", "=", True),
    "nothing after the answer but the end": (TokenSet.POST_ANSWER, THINK + ANSWER, "", True),
    "no answer: the tag": (TokenSet.POST_ANSWER, THINK + "<answer>399" + CONFIDENCE, CONFIDENCE, False),
    "no answer, no tag: nothing": (TokenSet.POST_ANSWER, THINK + "399", "", False),
    "an empty response": (TokenSet.POST_ANSWER, "", "", False),
}  # fmt: skip


def marks(tokenizer: PreTrainedTokenizerFast, text: str, token_set: TokenSet, end: int) -> np.ndarray:
    ids = encode(tokenizer, text)
    return confidence_tokens(TokenOffsets(tokenizer, ids, {}), len(ids) + end, token_set)


@pytest.mark.parametrize("case", CASES)
def test_a_token_set_marks_the_text_that_its_name_says(case: str) -> None:
    token_set, text, expected, end_marked = CASES[case]
    ids = encode(playground(), text)
    found = marks(playground(), text, token_set, end=1)
    assert decode(playground(), [i for i, marked in zip(ids, found, strict=False) if marked]) == expected
    assert found[-1] == end_marked
    assert (marks(playground(), text, token_set, end=0) == found[:-1]).all()


@each_tokenizer
@pytest.mark.parametrize("case", CASES)
def test_a_token_over_a_border_belongs_to_the_later_part(build: Build, case: str) -> None:
    token_set, text, expected, _ = CASES[case]
    tokenizer, ids = build(), encode(build(), text)
    found = np.flatnonzero(marks(tokenizer, text, token_set, end=0))
    if not expected:
        assert len(found) == 0
        return
    first, stop = int(found[0]), int(found[-1]) + 1
    assert found.tolist() == list(range(first, stop))
    start = text.rindex(expected)
    # The tokens before the first marked one end at or before the segment, and the first reaches into it.
    assert len(decode(tokenizer, ids[:first])) <= start < len(decode(tokenizer, ids[: first + 1]))
    # The last marked token is the one that completes the segment.
    assert (
        len(decode(tokenizer, ids[: stop - 1])) < start + len(expected) <= len(decode(tokenizer, ids[:stop]))
    )


def test_some_border_in_those_texts_lies_inside_a_token() -> None:
    tokens = [decode(byte_level(), [i]) for i in encode(byte_level(), WHOLE)]
    assert any("</answer><" in token for token in tokens)
    marked = marks(byte_level(), WHOLE, TokenSet.POST_ANSWER, end=0)
    assert any("</answer><" in token for token, mark in zip(tokens, marked, strict=True) if mark)


def test_a_split_character_after_the_answer_is_marked_from_its_first_byte() -> None:
    text = ANSWER + "猫"
    ids = encode(byte_level(), text)
    found = marks(byte_level(), text, TokenSet.POST_ANSWER, end=0)
    assert decode(byte_level(), ids[int(np.argmax(found)) :]) == "猫" and found.sum() > 1


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(pool=VerifierPool(workers=1, seconds=2.0)) as verifier:
        yield verifier


def completion(text: str, finished: bool = True, build: Build = playground) -> Completion:
    """A sampled response; log-probabilities and entropies count the tokens, so that each is known."""
    ids = (*encode(build(), text), *([build().eos_token_id] if finished else []))
    numbers = np.arange(len(ids), dtype=np.float32)
    return Completion(ids, finished, -numbers, numbers)


def scorer(verifier: Verifier, build: Build = playground) -> Scorer:
    end = (build().eos_token_id,)
    return Scorer(build(), end, FORMATS["probability"], TokenSet.POST_ANSWER, verifier)


def question(
    gold: str | tuple[str, ...] = "399", kind: str = "exact", q: float | None = None
) -> TrainingQuestion:
    return TrainingQuestion("d", "57*7", (gold,) if isinstance(gold, str) else gold, kind, (9, 8, 7), q)


def score(verifier: Verifier, texts: list[str], asked: TrainingQuestion | None = None) -> ScoredGroup:
    (found,) = scorer(verifier).score([asked or question()], [[completion(text) for text in texts]])
    return found


def answer(text: str, confidence: str = "0.73") -> str:
    return f"<think>5</think><answer>{text}</answer><confidence>{confidence}</confidence>"


def test_a_group_says_what_was_right_how_sure_and_how_written(verifier: Verifier) -> None:
    texts = [
        answer("399"),
        answer("398", "0.05"),
        answer("399") + "7",
        "<think>5</think><answer>399</answer>",
        "5",
    ]
    found = score(verifier, texts, question(("1", "399"), q=0.25))
    assert found.group.correct_G.tolist() == [True, False, True, True, False]
    assert found.group.well_formed_G.tolist() == [True, True, False, False, False]
    assert np.array_equal(found.group.confidence_G, [0.73, 0.05, 0.73, np.nan, np.nan], equal_nan=True)
    reasons = [response.reason for response in found.responses]
    assert reasons == ["ok", "ok", "trailing_text", "missing_confidence", "missing_think_end"]
    assert (found.question_id, found.prompt_ids, found.group.success_rate) == ("57*7", (9, 8, 7), 0.25)


def test_tokens_and_their_log_probabilities_are_the_sampled_ones_with_the_end(verifier: Verifier) -> None:
    sampled = completion(WHOLE)
    (response,) = score(verifier, [WHOLE]).responses
    assert response.token_ids == sampled.token_ids and response.token_ids[-1] == playground().eos_token_id
    assert response.logprobs_T is not None and (response.logprobs_T == sampled.logprobs).all()
    assert response.confidence_T.shape == (len(sampled.token_ids),) and response.confidence_T[-1]


def test_a_response_that_hit_the_limit_is_truncated_however_it_looks(verifier: Verifier) -> None:
    (found,) = scorer(verifier).score([question()], [[completion(WHOLE), completion(WHOLE, finished=False)]])
    assert [response.reason for response in found.responses] == ["ok", "truncated"]
    assert found.group.well_formed_G.tolist() == [True, False]
    assert found.group.correct_G.tolist() == [True, True], "it is right, whatever its layout"
    assert found.group.counted_G.tolist() == [True, False]


def test_entropy_is_the_mean_over_the_tokens_of_the_value_alone(verifier: Verifier) -> None:
    first = encode(playground(), WHOLE).index(encode(playground(), "<confidence>")[0]) + 1
    whole, malformed = score(verifier, [WHOLE, WHOLE + "7"]).responses
    assert whole.entropy == pytest.approx(np.mean([first, first + 1, first + 2, first + 3]))
    assert malformed.entropy is None


def test_a_gold_that_cannot_be_read_drops_its_group_and_no_other(verifier: Verifier) -> None:
    row = [completion(answer("7")), completion(answer("399"))]
    asked = [question(), question("9^{9^{9^9}}", "math"), question("7")]
    found = scorer(verifier).score(asked, [row] * 3)
    assert [group and group.group.correct_G.tolist() for group in found] == [
        [False, True],
        None,
        [True, False],
    ]


def test_hostile_answers_cost_their_own_verdict_only(verifier: Verifier) -> None:
    answers = [r"\frac{x}{2}", "(x+y+z+1)^{200}", r"\frac{x}{3}", "9^{9^{9^9}}", r"x\cdot\frac{1}{2}"]
    row = [completion(answer(text), build=byte_level) for text in answers]
    (found,) = scorer(verifier, byte_level).score([question(r"\frac{1}{2}x", "math")], [row])
    assert found.group.correct_G.tolist() == [True, False, False, False, True]
    assert found.group.well_formed_G.all()


class EvenNumbers:
    """A judge model that says yes to even numbers and nothing readable to 13, and keeps what it was asked."""

    name = "even"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    def ask(
        self, prompts: Sequence[Prompt], tokens: int, on_reply: Callable[[int, str | None], None]
    ) -> None:
        self.prompts += prompts
        for i, prompt in enumerate(prompts):
            number = int(prompt.user.split("<prediction>")[1].split("<")[0])
            on_reply(i, "perhaps" if number == 13 else "Yes" if number % 2 == 0 else "No")


def test_a_judge_grades_what_is_rewarded_and_is_told_the_question() -> None:
    model = EvenNumbers()
    asked = [
        replace(question("a city", "judge"), text="Which city?"),
        question("398"),
        question("a city", "judge"),
    ]
    row = [completion(answer("398")), completion(answer("399"))]
    unjudged = [completion(answer("398")), completion(answer("13"))]
    with Verifier(answer_judge(model)) as verifier:
        found = scorer(verifier).score(asked, [row, row, unjudged])
    assert [group and group.group.correct_G.tolist() for group in found] == [
        [True, False],
        [True, False],
        None,
    ]
    assert sum("Which city?" in prompt.user for prompt in model.prompts) == 2


def test_a_group_with_a_response_that_is_not_judged_is_left_out_and_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = [completion(answer("398")), completion(answer("13"))]
    with Verifier(answer_judge(EvenNumbers())) as verifier:
        assert scorer(verifier).score([question("a city", "judge")], [row]) == [None]
    assert "the judge gave no verdict on a response to question '57*7'" in capsys.readouterr().err


def test_only_a_judge_is_told_the_question() -> None:
    assert grade_item("exact", ("1",), None, question="1*1") == GradeItem("exact", ("1",), "")
    assert grade_item("judge", ("1",), None, question="1*1") == GradeItem("judge", ("1",), "", question="1*1")


def test_the_success_rate_of_a_group_with_and_without_the_response_itself(verifier: Verifier) -> None:
    rows = [[completion(answer("399")), completion(answer("7")), completion(answer("7"))]]
    (found,) = scorer(verifier).score([question()], rows)
    for leave_one_out, expected in ((False, [1 / 3] * 3), (True, [0, 1 / 2, 1 / 2])):
        assert found.group.group_success_G(leave_one_out).tolist() == expected


def response(length: int, marked: int = 2, reason: str = "ok", entropy: float | None = None) -> Response:
    confidence_T = np.arange(length) >= length - marked
    return Response((5,) * length, np.zeros(length, np.float32), confidence_T, reason, entropy)


def by_hand(
    correct: list[bool], confidence: list[float], lengths: list[int], well_formed: list[bool] | None = None
) -> ScoredGroup:
    formed = np.array(well_formed or [True] * len(correct))
    group = Group(np.array(correct), np.array(confidence), formed)
    return ScoredGroup("q", (1,), tuple(response(length) for length in lengths), group)


def test_the_penalty_falls_from_zero_at_the_buffer_to_minus_one_at_the_limit() -> None:
    lengths = np.array([1, 80, 81, 85, 90, 99, 100])
    assert overlong_penalty(lengths, 100, 20).tolist() == pytest.approx([0, 0, -0.05, -0.25, -0.5, -0.95, -1])


@pytest.mark.parametrize(
    "method, answer_penalty, confidence_penalty",
    [("rlvr", True, True), ("rlcr", True, True), ("coca", True, False), ("dcpo", True, False), ("redoubt", False, False)],
)  # fmt: skip
def test_the_penalty_for_length_is_one_on_the_answer(
    method: str, answer_penalty: bool, confidence_penalty: bool
) -> None:
    scored = by_hand([True, False, True], [0.9, 0.6, 0.3], [4, 8, 10])
    chosen = METHODS[method]
    buffer = {"overlong_buffer": 4} if "overlong_buffer" in chosen.settings.model_fields else {}
    settings = chosen.settings(max_new_tokens=10, **buffer)
    plain, found = chosen.rewards(scored.group, settings), rewards_of(scored, chosen, settings)
    for part, punished in (("answer_G", answer_penalty), ("confidence_G", confidence_penalty)):
        before, after = getattr(plain, part), getattr(found, part)
        if before is None:
            assert after is None
        else:
            assert (after - before).tolist() == pytest.approx([0, -0.5, -1] if punished else [0, 0, 0])


def test_without_a_buffer_length_costs_nothing() -> None:
    scored = by_hand([True, False], [0.9, 0.6], [4, 8192])
    rewards = rewards_of(scored, METHODS["rlvr"], METHODS["rlvr"].settings())
    assert rewards.answer_G is not None and rewards.answer_G.tolist() == [2, 1]


def test_every_token_has_the_advantage_of_its_segment_whatever_the_lengths() -> None:
    scored = by_hand([True, False, True], [0.9, 0.6, 0.3], [4, 9, 3])
    for method in (METHODS["coca"], METHODS["redoubt"], METHODS["rlcr"]):
        segments = advantages_of(scored.group, method, method.rewards(scored.group, method.settings()))
        rows = rows_of(scored, method, method.settings())
        for i, (row, length) in enumerate(zip(rows, [4, 9, 3], strict=True)):
            answer_T, confidence_T = [segments.answer_G[i]] * (length - 2), [segments.confidence_G[i]] * 2
            assert row.advantages_T.tolist() == answer_T + confidence_T
            assert row.prompt_ids == scored.prompt_ids and row.response is scored.responses[i]


@pytest.mark.parametrize("correct, last_formed", [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("method", ["coca", "dcpo", "redoubt"])
def test_a_unanimous_group_teaches_confidence_and_nothing_of_the_answer(
    method: str, correct: bool, last_formed: bool
) -> None:
    scored = by_hand([correct] * 3, [0.9, 0.6, 0.3], [5, 5, 5], well_formed=[True, True, last_formed])
    for row in rows_of(scored, METHODS[method], METHODS[method].settings(keep_unanimous=True)):
        assert (row.advantages_T[:3] == 0).all(), "a malformed response is no reason to change answers"
        assert (row.advantages_T[3:] != 0).all()


@pytest.mark.parametrize("method", ["rlvr", "rlcr", "coca", "dcpo"])
def test_answers_learn_from_unanimous_groups_if_all_groups_are_trained_on(method: str) -> None:
    # The rewards of the answers differ by form.
    scored = by_hand([False] * 3, [0.9, 0.6, 0.3], [5, 5, 5], well_formed=[True, True, False])
    kept, left_out = (
        rows_of(scored, METHODS[method], METHODS[method].settings(all_groups=given))
        for given in (True, False)
    )
    assert all((row.advantages_T[:3] != 0).all() for row in kept)
    assert all((row.advantages_T[:3] == 0).all() for row in left_out)


def test_a_method_without_dynamic_sampling_learns_answers_from_unanimous_groups() -> None:
    group = Group(np.array([False, False]), np.array([1 / 9, 8 / 9]), np.array([True, True]), 1.0)
    scored = ScoredGroup("q", (1,), (response(3), response(4)), group)
    assert all(
        (row.advantages_T != 0).all() for row in rows_of(scored, METHODS["c3rl"], METHODS["c3rl"].settings())
    )


def test_the_figures_of_a_step_are_those_worked_by_hand() -> None:
    first = ScoredGroup(
        "a", (1,),
        (response(4, entropy=0.5), response(6, entropy=1.5), response(8, reason="truncated")),
        Group(np.array([True, False, True]), np.array([0.9, 0.9, np.nan]), np.array([True, True, False])),
    )  # fmt: skip
    second = ScoredGroup(
        "b", (1,),
        (response(2, entropy=1.0), response(5, reason="missing_answer"), response(5, reason="truncated")),
        Group(np.array([False, False, False]), np.array([0.1, 0.9, np.nan]), np.array([True, False, False])),
    )  # fmt: skip
    method, settings = METHODS["coca"], METHODS["coca"].settings()
    found = step_metrics([step_record(group, method, settings) for group in (first, second)])
    # correct 1 0 1 | 0 0 0, stated .9 .9 - | .1 .9 -, where - counts as 0
    assert found == pytest.approx(
        {
            "pass@1": 2 / 6,
            "brier": (0.01 + 0.81 + 1 + 0.01 + 0.81 + 0) / 6,
            # bins: [0, .1) 2 of them, 1 right; [.1, .2) 1, wrong; [.9, 1] 3, one right
            "ece": 2 / 6 * 0.5 + 1 / 6 * 0.1 + 3 / 6 * (0.9 - 1 / 3),
            # pairs of a right (.9, 0) and a wrong one (.9, .1, .9, 0): .5+1+.5+1 and 0+0+0+.5
            "auroc": 3.5 / 8,
            "top1": 3 / 6,
            "effective_support": (1 / 2) ** -(1 / 2) * (1 / 6) ** -(1 / 6) * (1 / 3) ** -(1 / 3),
            "mean_confidence": (0.9 + 0.9 + 0.1 + 0.9) / 4,
            "distinct_values": (1 + 2) / 2,
            "confidence_entropy": 1.0,
            # of the four wrong ones, .1 and -
            "wrong_below_half": 2 / 4,
            "malformed": 3 / 6,
            "unreadable": 2 / 6,
            "malformed/truncated": 2 / 6,
            "malformed/missing_answer": 1 / 6,
            "response_tokens": 30 / 6,
            # well formed are .9 right, .9 wrong and .1 wrong
            "reward/format": 3 / 6,
            "reward/correct": 1 / 6,
            "reward/brier": ((1 - 0.01) + (1 - 0.81) + (1 - 0.01)) / 6,
            "reward_answer": ((2 + 1 + 0) / 3 + 1 / 3) / 2,
            # distances to 1/3 and to 0
            "reward_confidence": (2 * (1 - (0.9 - 1 / 3) ** 2) / 3 + (1 - 0.01) / 3) / 2,
        }
    )


def test_figures_that_mean_nothing_are_left_out() -> None:
    group = by_hand([True, True], [0.9, 0.5], [3, 3])
    found = step_metrics([step_record(group, METHODS["redoubt"], METHODS["redoubt"].settings())])
    assert "auroc" not in found and "reward_answer" not in found and "confidence_entropy" not in found
    assert found["reward_confidence"] == pytest.approx((log(0.9) + log(0.5)) / 2)
    assert found["malformed"] == 0
