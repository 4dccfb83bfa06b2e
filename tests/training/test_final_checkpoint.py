"""The final checkpoint replaces nothing and deletes nothing before it has been read back whole."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from calibsft.errors import InputError
from calibsft.models import load_model, load_tokenizer
from calibsft.training.adapters import with_adapters
from calibsft.training.final import require_loadable, require_savable, save_model
from calibsft.training.settings import LoraSettings

Trainer = Callable[..., SimpleNamespace]


@pytest.fixture
def trainer(random_checkpoint: Path) -> Trainer:
    """Makes what `save_model` needs of a trainer; `gathered` stands for what the processes gather."""

    def make(
        model: PreTrainedModel | None = None,
        gathered: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda state: state,
    ) -> SimpleNamespace:
        trained = load_model(str(random_checkpoint), "cpu", "float32") if model is None else model
        accelerator = SimpleNamespace(
            get_state_dict=lambda wrapped: gathered(wrapped.state_dict()),
            unwrap_model=lambda wrapped: wrapped,
            wait_for_everyone=lambda: None,
        )
        tokenizer = load_tokenizer(str(random_checkpoint))
        return SimpleNamespace(accelerator=accelerator, model_wrapped=trained, processing_class=tokenizer)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stage folder with a running checkpoint and the model of an earlier training."""
    for path in (tmp_path / "checkpoints" / "checkpoint-2" / "complete", tmp_path / "model" / "README.md"):
        path.parent.mkdir(parents=True)
        path.write_text("before")
    return tmp_path


def logits(model: PreTrainedModel) -> Tensor:
    model.eval()
    with torch.no_grad():
        found: Tensor = model(input_ids=torch.arange(3, 20)[None]).logits
    return found


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda state: {key: tensor for key, tensor in state.items() if not key.endswith(name)}


def test_the_saved_model_is_the_trained_one_and_takes_the_place_of_the_running_checkpoints(
    trainer: Trainer, folder: Path
) -> None:
    made = trainer()
    save_model(made, folder, "card")
    saved = load_model(str(folder / "model"), "cpu", "float32")
    assert torch.equal(logits(saved), logits(made.model_wrapped))
    assert (folder / "model" / "README.md").read_text() == "card"
    assert [path.name for path in folder.iterdir()] == ["model"]


def test_adapters_are_merged_and_the_trained_model_is_left_as_it_was(
    trainer: Trainer, folder: Path, random_checkpoint: Path
) -> None:
    model = with_adapters(load_model(str(random_checkpoint), "cpu", "float32"), LoraSettings(rank=4))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:  # zeros at the start, so that adapters change nothing
                parameter.normal_(std=0.2)
    save_model(trainer(model), folder, "card")
    saved = load_model(str(folder / "model"), "cpu", "float32")
    start = load_model(str(random_checkpoint), "cpu", "float32")
    moved = (logits(model) - logits(start)).abs().max()
    assert (logits(saved) - logits(model)).abs().max() < 0.001 * moved
    assert not [path for path in (folder / "model").iterdir() if "adapter" in path.name]


@pytest.mark.parametrize(
    "spoil",
    [
        without("layers.0.mlp.up_proj.weight"),
        lambda state: {},
        lambda state: {f"base_model.model.{key}": tensor for key, tensor in state.items()},
        lambda state: {key: tensor.flatten()[:0] for key, tensor in state.items()},
    ],
    ids=["a missing tensor", "nothing", "names of a wrapper", "empty shards"],
)
def test_weights_that_were_not_gathered_whole_cost_nothing_that_was_there(
    spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]], trainer: Trainer, folder: Path
) -> None:
    with pytest.raises(InputError, match="could not be gathered whole"):
        save_model(trainer(gathered=spoil), folder, "card")
    assert (folder / "checkpoints" / "checkpoint-2" / "complete").read_text() == "before"
    assert (folder / "model" / "README.md").read_text() == "before"


def lose_a_tensor(tensors: dict[str, Tensor]) -> str:
    name = "model.layers.0.mlp.up_proj.weight"
    del tensors[name]
    return name


def add_a_tensor(tensors: dict[str, Tensor]) -> str:
    tensors["base_model.model.norm.weight"] = torch.zeros(3)
    return "base_model.model.norm.weight"


def cut_a_tensor(tensors: dict[str, Tensor]) -> str:
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name][:1].clone()
    return name


@pytest.mark.parametrize("spoil", [lose_a_tensor, add_a_tensor, cut_a_tensor])
def test_what_was_written_is_read_back_before_it_replaces_anything(
    spoil: Callable[[dict[str, Tensor]], str],
    trainer: Trainer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = trainer()
    save_pretrained = PreTrainedModel.save_pretrained

    def save(self: PreTrainedModel, target: Path, **kwargs: Any) -> None:
        save_pretrained(self, target, **kwargs)
        tensors = load_file(target / "model.safetensors")
        spoiled.append(spoil(tensors))
        save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})

    spoiled: list[str] = []
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", save)
    with pytest.raises(InputError, match="does not hold the model, 1 tensors differ") as refusal:
        save_model(made, folder, "card")
    assert spoiled[0] in str(refusal.value)
    assert (folder / "checkpoints" / "checkpoint-2" / "complete").read_text() == "before"
    assert (folder / "model" / "README.md").read_text() == "before"


def test_a_checkpoint_without_weights_is_refused(random_checkpoint: Path, tmp_path: Path) -> None:
    require_loadable(random_checkpoint)
    (tmp_path / "README.md").write_text("a card alone")
    with pytest.raises(InputError, match="no weights were written"):
        require_loadable(tmp_path)


def test_events_for_tensorboard_outlive_the_running_checkpoints(trainer: Trainer, folder: Path) -> None:
    (folder / "checkpoints" / "runs" / "today").mkdir(parents=True)
    (folder / "checkpoints" / "runs" / "today" / "events").write_text("loss")
    save_model(trainer(), folder, "card")
    assert (folder / "tensorboard" / "today" / "events").read_text() == "loss"
    assert not (folder / "checkpoints").exists()


def cut_by(**plugins: object) -> SimpleNamespace:
    return SimpleNamespace(accelerator=SimpleNamespace(state=SimpleNamespace(**plugins)))


def zero(stage: int, **optimisation: bool) -> SimpleNamespace:
    return SimpleNamespace(
        zero_stage=stage, deepspeed_config={"zero_optimization": {"stage": stage, **optimisation}}
    )


def test_what_could_not_be_saved_is_refused_before_training() -> None:
    gather = "stage3_gather_16bit_weights_on_model_save"
    for fine in (
        cut_by(),
        cut_by(fsdp_plugin=None, deepspeed_plugin=None),
        cut_by(fsdp_plugin=SimpleNamespace(fsdp_version=2)),
        cut_by(deepspeed_plugin=zero(2)),
        cut_by(deepspeed_plugin=zero(3, **{gather: True})),
    ):
        require_savable(fine)
    with pytest.raises(InputError, match="set fsdp_version: 2"):
        require_savable(cut_by(fsdp_plugin=SimpleNamespace(fsdp_version=1)))
    for without_gathering in (zero(3), zero(3, **{gather: False})):
        with pytest.raises(InputError, match="set zero3_save_16bit_model: true"):
            require_savable(cut_by(deepspeed_plugin=without_gathering))
