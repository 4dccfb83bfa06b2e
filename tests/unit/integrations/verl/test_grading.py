"""What the reward manager finds in a response, and the record of it that reaches the trainer."""

import json
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from calibsft.integrations.verl.grading import ResponseGrader
from calibsft.integrations.verl.record import CORRECT, RECORD, ResponseRecord
from calibsft.integrations.verl.settings import PluginSettings
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.rl.methods import method_settings
from sampled_run import response

TOKENIZER: PreTrainedTokenizerFast = build_tokenizer()
END = TOKENIZER.eos_token_id


def row(kind: str = "exact", gold: str = "84") -> dict[str, Any]:
    extra = {"question_id": "q", "question": "12*7", "kind": kind, "tolerance": "", "success_rate": 0.25}
    return {"data_source": "d", "reward_model": {"ground_truth": [gold]}, "extra_info": extra}


def graded(text: str, method: str = "coca", ended: bool = True, **columns: str) -> ResponseRecord:
    settings = PluginSettings(format="probability", rl=method_settings(method, {}, "test"))
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"] + [END] * ended
    return ResponseGrader(TOKENIZER, (END,), settings).grade(ids, row(**columns))


def test_a_right_response_is_graded_and_its_segment_found() -> None:
    record = graded(response("84", "0.90"))
    assert record == ResponseRecord(True, 0.9, True, "ok", record.segment, 0.25)
    tokens = TOKENIZER(response("84", "0.90"), add_special_tokens=False)["input_ids"]
    first, after = record.segment
    assert TOKENIZER.decode(tokens[first:after]) == "<confidence>0.90</confidence>"


@pytest.mark.parametrize(
    "method, segment", [("coca", (7, 13)), ("dcpo", (7, 14)), ("redoubt", (7, 14)), ("rlcr", (0, 0))]
)
def test_the_segment_is_that_of_the_method(method: str, segment: tuple[int, int]) -> None:
    assert graded(response("84", "0.90"), method).segment == segment


def test_a_response_without_an_end_is_malformed_and_not_counted() -> None:
    record = graded(response("84", "0.90"), ended=False)
    assert record.correct and not record.well_formed and not record.counted
    assert record.reason == "truncated"


@pytest.mark.parametrize(
    "text", ["", "<answer>", "</answer>" * 5, "<confidence>9" * 9, "<think>" + "7" * 500]
)
def test_text_that_is_no_response_is_wrong(text: str) -> None:
    record = graded(text)
    assert not record.counted and not record.well_formed and record.scored


def test_an_empty_response_is_wrong() -> None:
    assert not graded("", ended=False).counted


@pytest.mark.parametrize("answer", ["9**9**9**9", "((((" * 200, "1" * 4000])
def test_a_hostile_answer_is_wrong_and_hinders_nobody(answer: str) -> None:
    settings = PluginSettings(format="probability", rl=method_settings("rlcr", {}, "test"))
    grader = ResponseGrader(TOKENIZER, (END,), settings)
    hostile, harmless = (
        TOKENIZER(response(text, "0.90"), add_special_tokens=False)["input_ids"] + [END]
        for text in (answer.replace("(", "."), "84")
    )
    assert not grader.grade(hostile, row(kind="math")).correct
    assert grader.grade(harmless, row(kind="math")).correct


def test_a_response_to_an_unreadable_gold_is_unscored() -> None:
    record = graded(response("84", "0.90"), kind="math", gold="")
    assert record == ResponseRecord.unscored() and not record.counted


@pytest.mark.parametrize("confidence", [None, 0.1, 1 / 3])
def test_a_record_survives_the_way_to_the_trainer(confidence: float | None) -> None:
    record = ResponseRecord(True, confidence, confidence is not None, "ok", (3, 7), None)
    told = json.loads(json.dumps(record.extra_info()))
    assert ResponseRecord.read(told) == record
    assert told[CORRECT] == float(record.counted)
    assert isinstance(told[RECORD], str), "verl averages what is no text"
