"""Load a Hugging Face checkpoint for sampling or training, with clear errors.

A checkpoint is a folder or a name on the Hub, which may pin a revision: `org/name@revision`.
"""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from calibsft.errors import InputError, unknown_name
from calibsft.hub import name_and_revision, prepare_model, record_commit, snapshot

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def quiet_libraries() -> None:
    """Use one torch thread per process on a CPU, and hide the libraries' progress bars."""
    if not torch.cuda.is_available() and "OMP_NUM_THREADS" not in os.environ:
        # two threads are several times slower if another process uses the second core
        torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the first GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device '{name}' cannot be used here; choose auto or cpu") from error
    return device


def visible_gpus(device: str) -> int:
    """How many GPUs one process would train on: the library takes all visible ones, whatever `device` names."""
    return 0 if device.startswith("cpu") else torch.cuda.device_count()


def require_one_gpu(gpus: int, command: str) -> None:
    """Refuse to train in one process that sees several GPUs."""
    if gpus > 1:
        raise InputError(
            f"{gpus} GPUs in one process: start with 'accelerate launch -m calibsft {command} …', one process per GPU"
        )


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype called `name`; "auto" is float32 on a CPU, where narrower types are slower, and bfloat16 elsewhere."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in DTYPES:
        unknown_name("dtype", name, ["auto", *DTYPES])
    return DTYPES[name]


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint folder or Hub id."""
    _prepare(model)
    tokenizer = _load_tokenizer(model)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise InputError(
            f"{model}: its tokenizer has no vocabulary; the folder needs tokenizer files beside the weights"
        )
    require_end_token(tokenizer, model)
    return tokenizer


def require_end_token(tokenizer: PreTrainedTokenizerBase, model: str) -> None:
    """Refuse a tokenizer without an end-of-sequence token."""
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"{model}: its tokenizer has no end-of-sequence token, so no response could ever finish;"
            " set eos_token in its tokenizer_config.json"
        )


def named_end_ids(tokenizer: PreTrainedTokenizerBase, model: str) -> tuple[int, ...]:
    """Every id that ends a response: the tokenizer's first, and those of the checkpoint's generation config if there is one."""
    name, revision = name_and_revision(model)
    try:
        named = GenerationConfig.from_pretrained(name, revision=revision or "main").eos_token_id
    except (OSError, ValueError):
        named = None
    others = set(named if isinstance(named, list) else [named]) - {tokenizer.eos_token_id, None}
    return (tokenizer.eos_token_id, *sorted(others))


def load_model(model: str, device: str = "auto", dtype: str = "auto") -> PreTrainedModel:
    """The causal language model of a checkpoint folder or Hub id."""
    return _load(AutoModelForCausalLM, model, device, dtype)


def load_encoder(
    model: str, device: str = "auto", dtype: str = "auto"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of a checkpoint folder or Hub id without its head, and its tokenizer."""
    return _load(AutoModel, model, device, dtype), _load_tokenizer(model)


def _load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    name, revision = name_and_revision(model)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name, revision=revision or "main")
    except (OSError, ValueError) as error:
        raise _cannot_load(model, error) from error
    _record(model)
    return tokenizer


def _load(
    kind: type[AutoModel] | type[AutoModelForCausalLM], model: str, device: str, dtype: str
) -> PreTrainedModel:
    _prepare(model)
    where = pick_device(device)
    name, revision = name_and_revision(model)
    try:
        loaded = kind.from_pretrained(name, revision=revision or "main", dtype=pick_dtype(dtype, where))
    except (OSError, ValueError, SafetensorError) as error:
        raise _cannot_load(model, error) from error
    folder = _record(model)
    if revision and folder:
        # TRL loads the reference model by this name, and would take the newest revision.
        loaded.config.name_or_path = str(folder)
    return loaded.to(where)


def _record(model: str) -> Path | None:
    """Record the commit of a model that was loaded from the Hub; returns its folder in the cache."""
    folder = None if Path(model).exists() else snapshot(*name_and_revision(model))
    if folder:
        record_commit(model, folder.name)
    return folder


def _prepare(model: str) -> None:
    quiet_libraries()
    prepare_model(model)


def context_length(model: PreTrainedModel) -> int | None:
    """The model's context in tokens, None if its configuration does not name it."""
    return _context_in(model.config)


def named_context(model: str) -> int | None:
    """The context of a checkpoint folder or Hub id, without loading its weights."""
    name, revision = name_and_revision(model)
    try:
        return _context_in(AutoConfig.from_pretrained(name, revision=revision or "main"))
    except (OSError, ValueError) as error:
        raise _cannot_load(model, error) from error


def _context_in(config: PretrainedConfig) -> int | None:
    length: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return length


def _cannot_load(model: str, error: Exception) -> InputError:
    first = str(error).strip().splitlines()[0]
    if Path(model).exists():
        return InputError(
            f"{model}: not a loadable checkpoint ({first}); it needs config.json, weights and tokenizer files"
        )
    return InputError(
        f"model '{model}' is neither a folder nor reachable on the Hub ({first}); give a checkpoint folder, or check the name"
        " and the connection"
    )
