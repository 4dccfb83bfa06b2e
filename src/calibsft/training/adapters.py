"""Low-rank adapters around a frozen model."""

from transformers import PreTrainedModel

from calibsft.errors import InputError
from calibsft.training.settings import LoraSettings


def with_adapters(model: PreTrainedModel, lora: LoraSettings) -> PreTrainedModel:
    """The model with trainable low-rank adapters; everything else is frozen."""
    from peft import LoraConfig, get_peft_model

    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=modules, task_type="CAUSAL_LM")
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"lora.target_modules {lora.target_modules!r} does not fit the model ({first}); try all-linear"
        ) from error
