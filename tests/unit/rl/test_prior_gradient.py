"""What each confidence value contributes to the expected gradient, against a plain loop over responses and values."""

from math import exp
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.progress import Progress
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl import prior_gradient
from calibsft.rl.prior_gradient import Context, gradient_shares, read_contexts, reward_gradient
from calibsft.sft.encode import Example

VALUES = (0.25, 0.5, 0.75)


def context(correct: bool, work: str, marks: int = 1) -> Context:
    """A response with the trace `work` and each of three words for its confidence, one of them of two tokens."""
    tokenizer = build_tokenizer()
    prompt = tuple(tokenizer("[linguistic]" * marks + "57*77=")["input_ids"])
    ways = []
    for word in ("low", "medium", "high7"):
        said = tokenizer(f"<think>{work}</think><answer>{work}</answer>")["input_ids"]
        stated = tokenizer(f"<confidence>{word}</confidence>")["input_ids"]
        ways.append(Example(prompt, (*said, *stated, tokenizer.eos_token_id), len(said), correct))
    return Context(correct, VALUES, tuple(ways))


CONTEXTS = [context(True, "12"), context(False, "3456", marks=3), context(False, "9"), context(True, "77777")]


@pytest.fixture
def model(random_checkpoint: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(random_checkpoint)


def logprob(model: PreTrainedModel, way: Example) -> torch.Tensor:
    """The log-probability of the confidence part, without padding, one token after the other."""
    ids = torch.tensor([way.prompt + way.response])
    logprobs = model(input_ids=ids).logits[0].log_softmax(-1)
    first = len(way.prompt) + way.confidence_at
    return torch.stack([logprobs[t - 1, ids[0, t]] for t in range(first, ids.shape[1])]).sum()


def by_loop(model: PreTrainedModel) -> tuple[list[float], list[float]]:
    """Mean probability of every value, and its share of the gradient."""
    totals = [torch.zeros(()) for _ in VALUES]
    probabilities = [0.0] * len(VALUES)
    for one in CONTEXTS:
        logprobs = [logprob(model, way) for way in one.ways]
        likely = [exp(value.item()) for value in logprobs]
        said = [p / sum(likely) for p in likely]
        rewards = [-((value - one.correct) ** 2) for value in VALUES]
        expected = sum(p * u for p, u in zip(said, rewards, strict=True))
        for i, (p, u) in enumerate(zip(said, rewards, strict=True)):
            parts = torch.autograd.grad(logprobs[i], list(model.parameters()), retain_graph=True)
            totals[i] = totals[i] + p * (u - expected) * torch.cat([part.flatten() for part in parts])
            probabilities[i] += p / len(CONTEXTS)
    norms = [float(total.norm()) for total in totals]
    return probabilities, [norm / sum(norms) for norm in norms]


@pytest.mark.parametrize("at_once", [1, 3, 512])
def test_a_values_share_is_the_length_of_its_own_expected_gradient(
    at_once: int, model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prior_gradient, "ROWS_AT_ONCE", at_once)
    found = gradient_shares(model, CONTEXTS)
    probabilities, shares = by_loop(model)
    assert found["contexts"] == 4 and [row["confidence"] for row in found["values"]] == list(VALUES)
    assert [row["probability"] for row in found["values"]] == pytest.approx(probabilities, rel=1e-4)
    assert [row["gradient_share"] for row in found["values"]] == pytest.approx(shares, rel=1e-3)
    assert sum(shares) == pytest.approx(1) and max(shares) - min(shares) > 0.05, (
        "a case that tells values apart"
    )


def test_values_come_in_ascending_order_whatever_the_format_says_first(model: PreTrainedModel) -> None:
    turned = [Context(one.correct, one.values[::-1], one.ways[::-1]) for one in CONTEXTS]
    plain, found = gradient_shares(model, CONTEXTS)["values"], gradient_shares(model, turned)["values"]
    for row, expected in zip(found, plain, strict=True):
        assert row == pytest.approx(expected, rel=1e-4)


def test_the_gradient_of_the_expected_reward_is_the_one_worked_by_hand() -> None:
    # Right: u = −9/16, −1/4, −1/16; J = ½·(−9/16) + ½·(−1/4) = −13/32. The third value is never said.
    # Wrong: u = −1/16, −1/4, −9/16; J = −1/4 with all the mass on the second, which is then no better than itself.
    probability_N_V = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    found = reward_gradient(probability_N_V, [context(True, "1"), context(False, "1")])
    assert found.tolist() == [pytest.approx([-5 / 64, 5 / 64, 0]), [0, 0, 0]]


def test_the_gradient_with_respect_to_the_logits_is_that_of_autograd() -> None:
    logits = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for correct in (True, False):
        rewards = torch.tensor([-((value - correct) ** 2) for value in VALUES], dtype=torch.float64)
        (expected,) = torch.autograd.grad((logits.softmax(-1) * rewards).sum(), logits)
        probability_V = logits.detach().softmax(-1).numpy()
        found = reward_gradient(probability_V[None], [context(correct, "1")])
        assert found[0].tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_a_value_that_is_never_said_gets_nothing(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    certain = np.log(np.tile([0.5, 1e-320, 0.5], (4, 1)))
    monkeypatch.setattr(prior_gradient, "_value_logits", lambda *_: certain)
    shares = [row["gradient_share"] for row in gradient_shares(model, CONTEXTS)["values"]]
    assert shares[1] == 0 and min(shares[0], shares[2]) > 0.1 and sum(shares) == pytest.approx(1)


def test_a_prior_of_one_value_has_no_gradient_at_all(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.errstate(divide="ignore"):
        certain = np.log(np.tile([0.0, 1.0, 0.0], (4, 1)))
    monkeypatch.setattr(prior_gradient, "_value_logits", lambda *_: certain)
    values = gradient_shares(model, CONTEXTS)["values"]
    assert [row["gradient_share"] for row in values] == [0, 0, 0]
    assert [row["probability"] for row in values] == [0, 1, 0]


def test_measuring_leaves_weights_and_gradients_as_they_were_and_says_how_far_it_is(
    model: PreTrainedModel,
) -> None:
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with Progress("prior", 3, "values") as progress:
        gradient_shares(model, CONTEXTS, progress)
    assert progress.done == 3
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


RESPONSES = [
    ("a", 0, "<think>1</think><answer>1</answer><confidence>3</confidence>", True, True),
    ("a", 1, "<think>2</think><answer>2</answer>", False, True),  # malformed
    ("b", 0, "<think>3</think><answer>3</answer><confidence>9</confidence>", True, None),  # ungraded
    ("b", 1, "<think>45</think><answer>45</answer><confidence>0</confidence>", True, False),
    ("c", 0, "<think>6</think><answer>6</answer><confidence>7</confidence>", True, False),
]


def evaluation(folder: Path, responses: list[tuple[str, int, str, bool, bool | None]]) -> Path:
    """The folder of an evaluation, as far as it is read; shards hold other rows and another order."""
    tokenizer = build_tokenizer()
    (folder / "rollouts").mkdir(parents=True)
    keys = [{"dataset": "d", "question_id": question, "sample": sample} for question, sample, *_ in responses]
    rows = [
        {**key, "response": text, "well_formed": formed, "correct": correct}
        for key, (_, _, text, formed, correct) in zip(keys, responses, strict=True)
    ]
    pl.DataFrame(rows).write_parquet(folder / "rows.parquet")
    ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for _, _, text, *_ in responses]
    shard = [{**key, "token_ids": each} for key, each in zip(keys, ids, strict=True)]
    pl.DataFrame(shard[::-1]).write_parquet(folder / "rollouts" / "part-00000.parquet")
    asked = [{"dataset": "d", "question_id": name, "question": f"{ord(name)}*7"} for name in "cba"]
    pl.DataFrame(asked).write_parquet(folder / "rollouts" / "questions.parquet")
    return folder


def test_every_value_is_tried_after_each_well_formed_graded_response(tmp_path: Path) -> None:
    tokenizer = build_tokenizer()
    found = read_contexts(evaluation(tmp_path, RESPONSES), 10, tokenizer, Prompting(FORMATS["integer"]))
    assert [one.correct for one in found] == [True, False, False]
    for one, name, work in zip(found, "abc", ("1", "45", "6"), strict=True):
        assert one.values == pytest.approx([digit / 9 for digit in range(10)])
        for digit, way in enumerate(one.ways):
            assert tokenizer.decode(way.prompt) == f"[integer]{ord(name)}*7="
            said = tokenizer.decode(way.response[: way.confidence_at])
            stated = tokenizer.decode(way.response[way.confidence_at :])
            assert said == f"<think>{work}</think><answer>{work}</answer>"
            assert stated == f"<confidence>{digit}</confidence><|end|>"


def test_fewer_responses_are_taken_evenly(tmp_path: Path) -> None:
    found = read_contexts(
        evaluation(tmp_path, RESPONSES), 2, build_tokenizer(), Prompting(FORMATS["integer"])
    )
    assert [build_tokenizer().decode(one.ways[0].prompt) for one in found] == [
        "[integer]97*7=",
        "[integer]99*7=",
    ]


def test_an_evaluation_without_a_well_formed_response_is_refused(tmp_path: Path) -> None:
    folder = evaluation(tmp_path, RESPONSES[1:3])
    with pytest.raises(InputError, match="no response is well formed"):
        read_contexts(folder, 2, build_tokenizer(), Prompting(FORMATS["integer"]))
