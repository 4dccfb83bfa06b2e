"""The advantages that verl gets: those of `segment_advantages`, on the tokens of their segments."""

from dataclasses import replace

import numpy as np
import pytest

from calibsft.integrations.verl.advantages import Sampled, token_advantages, update_numbers
from calibsft.integrations.verl.record import ResponseRecord
from calibsft.rl import segment_advantages
from calibsft.rl.methods import METHODS, method_settings
from verl_groups import expected_rows, random_responses


def sampled(method: str, seed: int, questions: int = 6, size: int = 5) -> list[Sampled]:
    return [
        Sampled(question, 0, tuple(range(tokens)), record)
        for question, tokens, record in random_responses(method, seed, questions, size)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", METHODS)
def test_every_token_has_the_advantage_of_its_segment(method: str, seed: int) -> None:
    rows = sampled(method, seed)
    found, _ = token_advantages(rows, method_settings(method, {}, "test"))
    wanted = expected_rows(method, [(one.question, len(one.token_ids), one.record) for one in rows])
    for advantages_T, expected_T in zip(found, wanted, strict=True):
        np.testing.assert_allclose(advantages_T, expected_T, atol=1e-12)
    assert any(np.any(advantages_T) for advantages_T in found)


def test_the_order_of_responses_does_not_matter() -> None:
    rows, settings = sampled("dcpo", 1), method_settings("dcpo", {}, "test")
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    found, _ = token_advantages(rows, settings)
    mixed, _ = token_advantages([rows[place] for place in order], settings)
    for place, advantages_T in zip(order, mixed, strict=True):
        np.testing.assert_allclose(advantages_T, found[place], atol=1e-12)


def test_a_setting_of_the_method_counts() -> None:
    rows = sampled("coca", 2, questions=1)
    records = [one.record for one in rows]
    settings = method_settings("coca", {"mean_only": True, "leave_one_out": True}, "test")
    found, _ = token_advantages(rows, settings)
    wanted = segment_advantages(
        "coca",
        [record.correct for record in records],
        [record.confidence for record in records],
        [record.well_formed for record in records],
        divide_by_std=False,
        leave_one_out=True,
    )
    for record, advantages_T, value in zip(records, found, wanted["confidence"], strict=True):
        np.testing.assert_allclose(advantages_T[record.segment[0]], value, atol=1e-12)


def test_responses_near_the_length_limit_are_penalised() -> None:
    settings = method_settings("c3rl", {"max_new_tokens": 10, "overlong_buffer": 4}, "test")
    right = ResponseRecord(True, 1.0, True, "ok", (0, 0), success_rate=0.5)
    lengths = (3, 6, 8, 10)
    found, _ = token_advantages(
        [Sampled("q", 0, tuple(range(length)), right) for length in lengths], settings
    )
    assert found[0][0] == found[1][0] > found[2][0] > found[3][0]


def test_a_group_with_an_ungraded_response_gets_no_advantage() -> None:
    settings = method_settings("rlcr", {}, "test")
    rows = [one for one in sampled("rlcr", 3, questions=3) if one.question != "q0"]  # right and wrong ones
    assert all(np.any(advantages_T) for advantages_T in token_advantages(rows, settings)[0])
    rows[0] = replace(rows[0], record=ResponseRecord.unscored())
    for one, advantages_T in zip(rows, token_advantages(rows, settings)[0], strict=True):
        assert np.any(advantages_T) == (one.question != rows[0].question)


def test_a_single_response_has_nothing_to_be_compared_with() -> None:
    rows = sampled("coca", 0, questions=1, size=1)
    found, metrics = token_advantages(rows, method_settings("coca", {"leave_one_out": True}, "test"))
    assert not np.any(found[0]) and metrics == {}


def test_segment_weights_follow_from_the_tokens_of_an_update() -> None:
    rows = [replace(one, update=place % 2) for place, one in enumerate(sampled("coca", 4))]
    plain, _ = token_advantages(rows, method_settings("coca", {}, "test"))
    found, _ = token_advantages(rows, method_settings("coca", {"segment_loss": True}, "test"))
    for update in (0, 1):
        mine = [place for place, one in enumerate(rows) if one.update == update]
        marks = [rows[place].record.marks_T(len(rows[place].token_ids)) for place in mine]
        tokens, confident = sum(len(marks_T) for marks_T in marks), sum(marks_T.sum() for marks_T in marks)
        for place, marks_T in zip(mine, marks, strict=True):
            weights_T = np.where(marks_T, tokens / confident, tokens / (tokens - confident))
            np.testing.assert_allclose(found[place], plain[place] * weights_T, atol=1e-12)


def test_rows_are_shared_by_ranks_and_then_by_updates() -> None:
    assert update_numbers(8, 1, 4) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert update_numbers(8, 2, 4) == [0, 0, 1, 1, 0, 0, 1, 1]
    assert update_numbers(12, 2, 4) == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]


def test_the_metrics_of_a_step_describe_its_responses() -> None:
    rows = sampled("rlcr", 5)
    _, metrics = token_advantages(rows, method_settings("rlcr", {}, "test"))
    assert metrics["reward/correct"] == pytest.approx(np.mean([one.record.counted for one in rows]))
    assert metrics["malformed"] == pytest.approx(np.mean([not one.record.well_formed for one in rows]))
