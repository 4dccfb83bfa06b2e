"""One decision: which responses count as confident, what the policy makes of them, and how clients are told."""

from typing import Any

import numpy as np
import pytest

from calibsft.decisions.thresholds import hundredths
from calibsft.gateway.deciding import Cause, Decision, Outcome, Reading, alarmed, decide, read_response
from calibsft.gateway.replies import finished, text_of
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import Reason, parse
from gateway_process import policy
from scripted_server import ANSWER, THOUGHT, completion, confident

PROBABILITY = FORMATS["probability"]


def decided(text: str, **fields: Any) -> Decision:
    rules = policy(**fields)
    return decide(rules, rules.id, read_response(text, True, FORMATS[rules.format]), "chatcmpl-1")


@pytest.mark.parametrize(
    "name, stated, reached",
    [
        ("probability", "0.50", 50),
        ("probability", "0.29", 29),
        ("probability", "0.57", 57),
        ("probability", "0.00", 0),
        ("probability", "1.00", 100),
        ("probability-0.05", "0.55", 55),
        ("probability-0.05", "0.58", 58),
        ("integer", "0", 0),
        ("integer", "7", 77),
        ("integer", "9", 100),
        ("linguistic", "low", 25),
        ("linguistic", "medium", 50),
        ("linguistic", "high", 75),
    ],
)
def test_a_confidence_is_answered_from_exactly_its_own_threshold_on(
    name: str, stated: str, reached: int
) -> None:
    at = decided(confident(stated), format=name, threshold=reached / 100)
    assert (at.outcome, at.cause) == (Outcome.ANSWERED, Cause.CONFIDENT)
    if reached < 100:
        above = decided(confident(stated), format=name, threshold=(reached + 1) / 100)
        assert (above.outcome, above.cause) == (Outcome.DEFERRED, Cause.NOT_CONFIDENT)


def test_a_confidence_reaches_the_same_threshold_as_in_calibration() -> None:
    edges = np.arange(101) / 100
    stated = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 2), np.linspace(0, 1, 7919)])
    stated = stated[(stated >= 0) & (stated <= 1)]
    assert [Reading(confidence=value).reached for value in stated.tolist()] == hundredths(stated).tolist()


def test_threshold_0_answers_all_that_is_well_formed_and_nothing_else() -> None:
    assert decided(confident("0.00"), threshold=0).outcome is Outcome.ANSWERED
    assert decided("", threshold=0).cause is Cause.MALFORMED


def test_threshold_1_answers_certainty_only() -> None:
    assert decided(confident("1.00"), threshold=1).outcome is Outcome.ANSWERED
    assert decided(confident("0.99"), threshold=1).outcome is Outcome.DEFERRED


@pytest.mark.parametrize("otherwise, outcome", [("abstain", "abstained"), ("defer", "deferred")])
def test_without_a_threshold_nothing_is_answered(otherwise: str, outcome: str) -> None:
    found = decided(confident("1.00"), otherwise=otherwise, threshold=None)
    assert (found.outcome, found.cause, found.threshold) == (outcome, "not_confident", None)


MALFORMED = {
    Reason.TRUNCATED: "<think>x</think> <answer>7</answer> <confidence>1.00",
    Reason.EMPTY_RESPONSE: " \n",
    Reason.MISSING_THINK_END: "<think>x <answer>7</answer> <confidence>1.00</confidence>",
    Reason.NESTED_TAG: "<think>x</think> <answer><answer>7</answer></answer> <confidence>1.00</confidence>",
    Reason.DUPLICATE_TAG: confident("1.00") + " <confidence>1.00</confidence>",
    Reason.MISSING_ANSWER: "<think>x</think> <confidence>1.00</confidence>",
    Reason.MISSING_CONFIDENCE: "<think>x</think> <answer>7</answer>",
    Reason.WRONG_ORDER: "<think>x</think> <confidence>1.00</confidence> <answer>7</answer>",
    Reason.STRAY_TEXT: "<think>x</think> so <answer>7</answer> <confidence>1.00</confidence>",
    Reason.TRAILING_TEXT: confident("1.00") + " indeed",
    Reason.EMPTY_ANSWER: confident("1.00", answer=" "),
    Reason.BAD_CONFIDENCE: confident("100%"),
}


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.OK])
@pytest.mark.parametrize("otherwise, outcome", [("abstain", "abstained"), ("defer", "deferred")])
def test_a_malformed_response_is_not_confident_whatever_it_states(
    reason: Reason, otherwise: str, outcome: str
) -> None:
    text = MALFORMED[reason]
    assert parse(text).reason is reason
    assert read_response(text, True, PROBABILITY) == Reading(None, None, None, reason)
    found = decided(text, otherwise=otherwise, threshold=0)
    assert (found.outcome, found.cause, found.confidence) == (outcome, "malformed", None)


@pytest.mark.parametrize(
    "stated, value",
    [("1", 1.0), ("0.9", 0.9), (".90", 0.9), ("0.90 ", 0.9), ("0.875", 0.875), ("1.01", None), ("-0.50", None),
     ("nan", None), ("0,90", None), ("٠.٩٠", None), ("high", None), ("9e-1", None), ("90%", None)],
)  # fmt: skip
def test_any_plain_decimal_is_a_confidence_and_nothing_else(stated: str, value: float | None) -> None:
    assert read_response(confident(stated), True, PROBABILITY).confidence == value


@pytest.mark.parametrize(
    "stated, outcome", [("0.9", "answered"), ("0.8999", "deferred"), ("0.90001", "answered")]
)
def test_a_confidence_of_any_length_is_compared_with_the_threshold_exactly(stated: str, outcome: str) -> None:
    assert decided(confident(stated), threshold=0.9).outcome == outcome


def test_a_response_cut_off_at_its_limit_is_malformed_however_it_looks() -> None:
    cut = completion(confident("0.95"), finish="length")
    reading = read_response(text_of(cut) or "", finished(cut), PROBABILITY)
    assert reading == Reading(malformed=Reason.TRUNCATED)
    assert decide(policy(), "p", reading, "r").cause is Cause.MALFORMED


@pytest.mark.parametrize("finish", ["stop", None, "content_filter", 7, []])
def test_any_other_end_is_an_end(finish: Any) -> None:
    assert finished(completion("x", finish=finish))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_a_server_took_out_is_put_back(name: str) -> None:
    content = f"\n\n<answer>{ANSWER}</answer> <confidence>0.95</confidence>"
    text = text_of(completion(content, **{name: THOUGHT}))
    assert text == f"<think>{THOUGHT}</think>{content}"
    assert read_response(text, True, PROBABILITY) == Reading(ANSWER, THOUGHT, 0.95)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("value", [None, "", 1, ["x"], {"text": "x"}])
def test_reasoning_that_is_no_text_is_left_out(name: str, value: Any) -> None:
    assert text_of(completion("said", **{name: value})) == "said"


def test_reasoning_that_stands_in_the_text_too_is_not_put_there_twice() -> None:
    assert text_of(completion(confident("0.95"), reasoning_content=THOUGHT)) == confident("0.95")


def test_a_reply_of_reasoning_alone_is_malformed() -> None:
    text = text_of(completion(None, reasoning_content=THOUGHT))
    assert text == f"<think>{THOUGHT}</think>"
    assert read_response(text, True, PROBABILITY) == Reading(malformed=Reason.MISSING_ANSWER)


def test_no_content_is_an_empty_response() -> None:
    assert text_of(completion(None)) == ""
    assert decided("").cause is Cause.MALFORMED


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": {}},
        {"choices": "text"},
        {"choices": ["text"]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {}}]},
        {"choices": [{"message": {"content": 1}}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": "x"}]}}]},
        {"choices": [{"text": "x"}]},
        {"choices": [{"delta": {"content": "x"}}]},
    ],
)
def test_what_is_no_completion_has_no_text(reply: dict[str, Any]) -> None:
    assert text_of(reply) is None


def test_the_first_of_several_choices_counts() -> None:
    reply = completion("first")
    reply["choices"] += completion("second")["choices"]
    assert text_of(reply) == "first"


def test_answer_and_reasoning_are_read_without_the_space_around_them() -> None:
    reading = read_response(confident("0.95", answer="\n 7 \n", think="\n because \n"), True, PROBABILITY)
    assert reading == Reading("7", "because", 0.95)


@pytest.mark.parametrize("otherwise", ["abstain", "defer"])
def test_no_response_at_all_is_deferred(otherwise: str) -> None:
    found = decide(policy(otherwise=otherwise, on_local_failure="defer"), "p", None, "r")
    assert (found.outcome, found.cause, found.confidence) == (Outcome.DEFERRED, Cause.LOCAL_FAILED, None)


def test_a_decision_is_told_in_a_field_and_the_same_in_headers() -> None:
    found = decided(confident("0.29"))
    fields = {
        "decision": "deferred",
        "reason": "not_confident",
        "confidence": 0.29,
        "threshold": 0.5,
        "guarantee": "high-probability",
        "policy": policy().id,
        "id": "chatcmpl-1",
    }
    assert found.extension() == fields
    assert found.headers() == {f"x-calibsft-{name}": str(value) for name, value in fields.items()}


def test_what_is_not_known_is_null_in_the_field_and_no_header() -> None:
    found = decided("", threshold=None)
    assert found.extension()["confidence"] is None and found.extension()["threshold"] is None
    assert found.headers().keys() == {
        f"x-calibsft-{name}" for name in ("decision", "reason", "guarantee", "policy", "id")
    }


@pytest.mark.parametrize(
    "on_alarm, outcome", [("warn", None), ("abstain", Outcome.ABSTAINED), ("defer", Outcome.DEFERRED)]
)
def test_an_alarm_does_what_the_policy_says(on_alarm: str, outcome: Outcome | None) -> None:
    found = alarmed(policy(on_alarm=on_alarm), "p", "r")
    assert (found.outcome if found else None) == outcome
    if found:
        assert (found.cause, found.confidence, found.id) == (Cause.ALARM, None, "r")
