"""The CalibSFT objective: its value, its invariances, its zeros, and how the variants differ.

1. It equals a value worked by hand.
2. It does not depend on padding, order, micro-batches or accumulation.
3. The reasoning of an incorrect response gets no gradient at all.
4. Each variant supervises what its name says.
"""

from math import log
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from calibsft.sft.batches import collate
from calibsft.sft.encode import Example
from calibsft.sft.loss import CONFIDENCE, NONE, REASONING, VARIANTS, Counts, token_losses, token_weights
from calibsft.sft.settings import SftSettings
from calibsft.sft.trainer import batch_loss

EXAMPLES = [
    Example(prompt=(5, 6), response=(7, 8, 9, 10, 11, 12, 1), confidence_at=4, correct=True),
    Example(prompt=(5,), response=(9, 9, 3, 4, 1), confidence_at=2, correct=False),
    Example(prompt=(6, 7, 8), response=(10, 12, 14, 16, 18, 20, 3, 4, 1), confidence_at=6, correct=True),
    Example(prompt=(4,), response=(15, 14, 13, 3, 5, 1), confidence_at=3, correct=False),
]


def counts(examples: list[Example]) -> Counts:
    return Counts(sum(e.correct for e in examples), len(examples), sum(len(e.response) for e in examples))


def loss_of(model: PreTrainedModel, parts: list[list[Example]], sft: SftSettings) -> Tensor:
    """The loss of one global batch that is computed in the given parts."""
    whole = counts([example for part in parts for example in part])
    head = model.get_output_embeddings()
    return torch.stack([batch_loss(model, head, collate(part), whole, sft)[0] for part in parts]).sum()


@pytest.fixture
def model(random_checkpoint: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(random_checkpoint).eval()


def test_the_loss_of_a_worked_example_is_the_one_computed_by_hand() -> None:
    # Two responses over a vocabulary of two. Probability given to the right token, by segment:
    # correct:   reasoning 1/2, 1/4     confidence 1/8
    # incorrect: reasoning 1/16         confidence 1/2, 1/8
    # reasoning term, correct only: mean(ln 2, ln 4) = 1.5 ln 2
    # confidence term, both: mean(ln 8, mean(ln 2, ln 8)) = mean(3, 2) ln 2 = 2.5 ln 2
    # L = (1 - .25) * 1.5 ln 2 + .25 * 2.5 ln 2 = 1.75 ln 2
    segments = torch.tensor(
        [[NONE, REASONING, REASONING, CONFIDENCE, NONE], [REASONING, CONFIDENCE, CONFIDENCE, NONE, NONE]]
    )
    right = torch.tensor([[1.0, 1 / 2, 1 / 4, 1 / 8, 1.0], [1 / 16, 1 / 2, 1 / 8, 1.0, 1.0]])
    weights = token_weights("calibsft", segments, torch.tensor([True, False]), Counts(1, 2, 6), beta=0.25)
    logits = torch.stack([right.log(), (1 - right).clamp(min=1e-30).log()], dim=-1).reshape(-1, 2)
    losses = token_losses(logits, torch.zeros(10, dtype=torch.long))
    assert (losses * weights.reshape(-1)).sum().item() == pytest.approx(1.75 * log(2), abs=1e-6)


@pytest.mark.parametrize(
    "variant, expected",
    [
        # weights of: correct reasoning (2 tokens), correct confidence (1), wrong reasoning (1), wrong confidence (2)
        ("calibsft", (0.75 / 2, 0.25 / 2, 0.0, 0.25 / 2 / 2)),
        ("confidence-only", (0.0, 1 / 2, 0.0, 1 / 2 / 2)),
        ("full-ce", (1 / 6, 1 / 6, 1 / 6, 1 / 6)),
        ("full-balanced", (0.75 / 2 / 2, 0.25 / 2, 0.75 / 2, 0.25 / 2 / 2)),
        ("correct-only", (0.75 / 2, 0.25, 0.0, 0.0)),
    ],
)
def test_each_variant_weighs_the_tokens_that_its_name_says(variant: str, expected: tuple[float, ...]) -> None:
    segments = torch.tensor(
        [[NONE, REASONING, REASONING, CONFIDENCE], [NONE, REASONING, CONFIDENCE, CONFIDENCE]]
    )
    weights = token_weights(variant, segments, torch.tensor([True, False]), Counts(1, 2, 6), beta=0.25)
    found = (weights[0, 1], weights[0, 3], weights[1, 1], weights[1, 2])
    assert [value.item() for value in found] == pytest.approx(expected)
    assert weights[:, 0].abs().sum() == 0
    assert weights[0, 1] == weights[0, 2] and weights[1, 2] == weights[1, 3]


def test_a_batch_without_a_correct_response_has_the_confidence_term_alone(model: PreTrainedModel) -> None:
    wrong = [example for example in EXAMPLES if not example.correct]
    both = loss_of(model, [wrong], SftSettings(beta=0.5))
    confidence = loss_of(model, [wrong], SftSettings(loss="confidence-only"))
    assert both.item() == pytest.approx(0.5 * confidence.item(), rel=1e-6)
    assert loss_of(model, [wrong], SftSettings(loss="correct-only")).item() == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_does_not_depend_on_how_the_batch_is_cut(variant: str, model: PreTrainedModel) -> None:
    sft = SftSettings(loss=variant).model_copy(update={"beta": 0.3})  # also for losses that do not look at it
    a, b, c, d = EXAMPLES
    cuts = [[[a, b, c, d]], [[a], [b], [c], [d]], [[b, d], [a, c]], [[d, c, b], [a]], [[c, a, d, b]]]
    gradients = []
    for cut in cuts:
        model.zero_grad()
        loss = loss_of(model, cut, sft)
        loss.backward()
        gradients.append((loss.item(), torch.cat([p.grad.flatten() for p in model.parameters()])))
    for value, gradient in gradients[1:]:
        assert value == pytest.approx(gradients[0][0], rel=1e-6)
        assert torch.allclose(gradient, gradients[0][1], rtol=1e-4, atol=1e-6)


def test_the_loss_does_not_depend_on_padding(model: PreTrainedModel) -> None:
    sft = SftSettings()
    inputs = collate(EXAMPLES)
    wider = {
        "input_ids": nn.functional.pad(inputs["input_ids"], (0, 7), value=3),
        "attention_mask": nn.functional.pad(inputs["attention_mask"], (0, 7)),
        "segments": nn.functional.pad(inputs["segments"], (0, 7), value=NONE),
        "correct": inputs["correct"],
    }
    head = model.get_output_embeddings()
    narrow_loss, wide_loss = (
        batch_loss(model, head, x, counts(EXAMPLES), sft)[0].item() for x in (inputs, wider)
    )
    assert wide_loss == pytest.approx(narrow_loss, rel=1e-6)


def logit_gradients(model: PreTrainedModel, sft: SftSettings) -> Tensor:
    """The loss gradient at the logits of every position, by running the head on all of them."""
    inputs = collate(EXAMPLES)
    logits = (
        model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        .logits.detach()
        .requires_grad_()
    )
    weights = token_weights(sft.loss, inputs["segments"], inputs["correct"], counts(EXAMPLES), sft.beta)
    losses = token_losses(logits[:, :-1].flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
    (losses * weights[:, 1:].flatten()).sum().backward()
    return logits.grad.abs().sum(-1)


def test_reasoning_of_incorrect_responses_gets_exactly_zero_gradient(model: PreTrainedModel) -> None:
    gradients = logit_gradients(model, SftSettings())
    segments, correct = collate(EXAMPLES)["segments"][:, 1:], collate(EXAMPLES)["correct"]
    gradients = gradients[:, :-1]
    assert (gradients[~correct][segments[~correct] == REASONING] == 0).all()
    assert (gradients[correct][segments[correct] == REASONING] > 0).all()
    assert (gradients[segments == CONFIDENCE] > 0).all()
    assert (gradients[segments == NONE] == 0).all()


def test_the_head_never_sees_positions_that_predict_the_reasoning_of_an_incorrect_response(
    model: PreTrainedModel,
) -> None:
    seen: list[int] = []
    head = model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, args, logits: seen.append(logits.shape[0]))
    wrong = [EXAMPLES[1]]
    batch_loss(model, head, collate(wrong), counts(wrong), SftSettings())
    hook.remove()
    assert seen == [len(wrong[0].response) - wrong[0].confidence_at]


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_at_supervised_positions_alone_give_the_loss_of_all_positions(
    variant: str, model: PreTrainedModel
) -> None:
    sft = SftSettings(loss=variant)
    inputs = collate(EXAMPLES)
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[:, :-1]
    weights = token_weights(variant, inputs["segments"], inputs["correct"], counts(EXAMPLES), sft.beta)[:, 1:]
    plain = (
        token_losses(logits.flatten(0, 1), inputs["input_ids"][:, 1:].flatten()) * weights.flatten()
    ).sum()
    assert loss_of(model, [EXAMPLES], sft).item() == pytest.approx(plain.item(), rel=1e-6)


def test_terms_add_up_to_the_loss(model: PreTrainedModel) -> None:
    loss, terms = batch_loss(
        model, model.get_output_embeddings(), collate(EXAMPLES), counts(EXAMPLES), SftSettings()
    )
    assert terms.sum().item() == pytest.approx(loss.item())
    assert (terms > 0).all()
