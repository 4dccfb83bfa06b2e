"""The final checkpoint of a training: gathered from all processes, written, read back, and then renamed.

The weights are gathered, also if FSDP or DeepSpeed has sharded the model, and put into a plain model of its class, with
adapters merged. Nothing is replaced or deleted before the new folder has been loaded as a user will load it.
"""

import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from calibsft.artifacts import CARD, temporary_name, write_text
from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS
from calibsft.training.checkpoints import CHECKPOINTS, PickleFreeTrainer

MODEL = "model"
TENSORBOARD = "tensorboard"
ADAPTER = "default"  # peft's name for the only one


def require_savable(trainer: PickleFreeTrainer) -> None:
    """Refuse, before the first step, a way to shard the model whose weights could not be saved at the end."""
    fsdp = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    if fsdp is not None and fsdp.fsdp_version != 2:
        raise InputError(
            "the weights of a model that FSDP's first version has cut are not saved; set fsdp_version: 2 in accelerate's config"
        )
    deepspeed = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    if deepspeed is not None and deepspeed.zero_stage == 3:
        zero = deepspeed.deepspeed_config["zero_optimization"]
        if not zero.get("stage3_gather_16bit_weights_on_model_save"):
            raise InputError(
                "DeepSpeed ZeRO-3 is configured not to gather the weights for saving; set zero3_save_16bit_model: true in accelerate's"
                " config, or stage3_gather_16bit_weights_on_model_save in DeepSpeed's own"
            )


def save_model(trainer: PickleFreeTrainer, folder: Path, card: str) -> None:
    """Write the final checkpoint to `folder/model`, then delete the running ones."""
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)  # by all processes together
    if FIRST_PROCESS:
        partial = temporary_name(folder / MODEL)
        partial.mkdir()
        # One process loads the model, and must not wait for the others.
        unset_hf_deepspeed_config()
        whole_model(trainer.accelerator.unwrap_model(trainer.model_wrapped), state).save_pretrained(partial)
        trainer.processing_class.save_pretrained(partial)
        write_text(partial / CARD, card)
        require_loadable(partial)
        shutil.rmtree(folder / MODEL, ignore_errors=True)
        partial.rename(folder / MODEL)
        _drop_running(folder)
    trainer.accelerator.wait_for_everyone()


def whole_model(trained: PreTrainedModel | PeftModel, state: Mapping[str, Tensor]) -> PreTrainedModel:
    """A plain model of the class of `trained` with the weights of `state`, adapters merged."""
    base = trained.get_base_model() if isinstance(trained, PeftModel) else trained
    with torch.device("meta"):
        whole = type(base)(base.config)
    whole.generation_config = base.generation_config
    if not isinstance(trained, PeftModel):
        _fill(whole, state)
        return whole
    adapted = get_peft_model(whole, deepcopy(trained.peft_config[ADAPTER]), low_cpu_mem_usage=True)
    # A safe merge makes new tensors, since these may be those of the trained model: not on a GPU, which has no room for both.
    _fill(adapted, {name: tensor.cpu() for name, tensor in state.items()})
    merged: PreTrainedModel = adapted.merge_and_unload(safe_merge=True)
    return merged


def _fill(model: PreTrainedModel | PeftModel, state: Mapping[str, Tensor]) -> None:
    """Make the tensors of `state` the model's own."""
    try:
        model.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        raise InputError(
            f"the trained weights could not be gathered whole ({' '.join(str(error).split())[:300]}); the running checkpoints"
            f" are kept in {CHECKPOINTS}/, train without FSDP or DeepSpeed to go on from them"
        ) from error
    model.tie_weights()


def require_loadable(folder: Path) -> None:
    """Refuse a checkpoint with missing or foreign tensors, or tensors of another shape."""
    if not list(folder.glob("*.safetensors")):
        raise InputError(f"{folder}: no weights were written; the running checkpoints are kept")
    _, found = AutoModelForCausalLM.from_pretrained(
        folder, device_map="meta", output_loading_info=True, ignore_mismatched_sizes=True
    )
    wrong = [name for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in found[kind]]
    if wrong:
        raise InputError(
            f"{folder}: the written checkpoint does not hold the model, {len(wrong)} tensors differ (first: {wrong[0]});"
            " the running checkpoints are kept"
        )


def _drop_running(folder: Path) -> None:
    """Delete the running checkpoints; keep the TensorBoard events among them."""
    events = folder / CHECKPOINTS / "runs"
    if events.is_dir():
        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
        shutil.move(events, folder / TENSORBOARD)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
