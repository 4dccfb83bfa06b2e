"""Losses computed in tiles are those of whole logits, with the same gradients, whatever the model does to its logits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import CohereConfig, CohereForCausalLM, PreTrainedModel

from calibsft.sft import fine_tune, tiled
from calibsft.sft.batches import collate
from calibsft.sft.encode import Example
from calibsft.sft.loss import Counts
from calibsft.sft.settings import SftSettings
from calibsft.sft.trainer import batch_loss
from calibsft.training.adapters import with_adapters
from calibsft.training.settings import LoraSettings
from small_models import SMALL, other_models

VOCABULARY, END = 50, 1
EXAMPLES = [
    Example(prompt=(5, 6), response=(7, 8, 9, 10, 11, 12, END), confidence_at=4, correct=True),
    Example(prompt=(5,), response=(9, 9, 3, 4, END), confidence_at=2, correct=False),
]
COUNTS = Counts(1, 2, 12)


def loss_and_gradients(
    model: PreTrainedModel, examples: list[Example], sft: SftSettings, in_tiles: bool
) -> tuple[float, Tensor]:
    model.zero_grad()
    head = model.get_output_embeddings()
    loss, _ = batch_loss(model, head, collate(examples), COUNTS, sft, in_tiles)
    loss.backward()
    found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return loss.item(), torch.cat(found)


def capped() -> PreTrainedModel:
    model = other_models(VOCABULARY, END)["gemma3"]
    model.config.final_logit_softcapping = 0.5
    return model


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    **{name: lambda name=name: other_models(VOCABULARY, END)[name] for name in ("llama", "gpt2", "gemma3")},
    "capped": capped,
}


@pytest.mark.parametrize("width", [7, 4096])
@pytest.mark.parametrize("name", MODELS)
def test_tiles_give_the_losses_and_gradients_of_whole_logits(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "TILE_WIDTH", width)
    model = MODELS[name]().eval()
    whole, whole_gradients = loss_and_gradients(model, EXAMPLES, SftSettings(), in_tiles=False)
    assert tiled.can_be_tiled(model)
    tiled.add_tiled_losses(model)
    loss, gradients = loss_and_gradients(model, EXAMPLES, SftSettings(), in_tiles=True)
    assert loss == pytest.approx(whole, rel=1e-5)
    assert torch.allclose(gradients, whole_gradients, rtol=1e-3, atol=1e-6)
    assert model(input_ids=torch.tensor([[5, 6]])).logits.shape == (1, 2, VOCABULARY), "else it is as before"


def test_a_micro_batch_without_a_trained_token_has_no_gradient() -> None:
    model = MODELS["llama"]()
    tiled.add_tiled_losses(model)
    wrong = [example for example in EXAMPLES if not example.correct]
    loss, gradients = loss_and_gradients(model, wrong, SftSettings(loss="correct-only"), in_tiles=True)
    assert loss == 0 and not gradients.any()


def test_adapters_are_trained_through_tiles() -> None:
    model = with_adapters(MODELS["llama"](), LoraSettings(rank=2))
    whole = loss_and_gradients(model, EXAMPLES, SftSettings(), in_tiles=False)
    assert fine_tune_tiles(model)
    found = loss_and_gradients(model, EXAMPLES, SftSettings(), in_tiles=True)
    assert found[0] == pytest.approx(whole[0], rel=1e-5)
    assert torch.allclose(found[1], whole[1], rtol=1e-3, atol=1e-6) and whole[1].any()


def fine_tune_tiles(model: PreTrainedModel, **settings: object) -> bool:
    """Whether training on the examples tiles, if 100 logits are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine_tune, "FEW_LOGITS", 100)
        return fine_tune.tile_losses(model, EXAMPLES, SftSettings(**settings))


def test_few_logits_are_computed_whole() -> None:
    assert not fine_tune.tile_losses(MODELS["llama"](), EXAMPLES, SftSettings())
    assert fine_tune_tiles(MODELS["llama"]())


def test_a_model_whose_logits_are_not_known_is_not_tiled(capsys: pytest.CaptureFixture[str]) -> None:
    scaled = CohereForCausalLM(
        CohereConfig(**SMALL, vocab_size=VOCABULARY, num_key_value_heads=2, logit_scale=0.25, pad_token_id=0)
    )
    assert not fine_tune_tiles(scaled)
    trained_head = with_adapters(MODELS["llama"](), LoraSettings(rank=2, target_modules=("lm_head",)))
    assert not fine_tune_tiles(trained_head)
    assert capsys.readouterr().err.count("lower sft.micro_batch_size if memory is short") == 2
