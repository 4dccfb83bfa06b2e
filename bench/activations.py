"""Activations of small Qwen3 models: what autograd keeps for the backward pass, against the estimate of `--dry-run`.

    python bench/activations.py

Runs on a CPU that can compute with bfloat16. Keys and values aside, a layer's bytes per token do not depend on the device.
"""

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from transformers import AutoModelForCausalLM, Qwen3Config

from calibsft.estimates.layouts import Sharding
from calibsft.estimates.shapes import Shape
from calibsft.estimates.training_memory import Training, activations

TOKENS = 256
# Hidden size, heads, heads of keys and values, dimension of a head, inside of the MLP.
SHAPES = [(64, 4, 2, 16, 192), (128, 4, 1, 32, 384), (128, 8, 2, 16, 512)]


def kept(shape: tuple[int, ...], layers: int, autocast: bool) -> int:
    """Bytes that the forward pass keeps and that grow with the number of tokens."""
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
    config = Qwen3Config(**dict(zip(names, shape, strict=True)), num_hidden_layers=layers, vocab_size=50)
    model = AutoModelForCausalLM.from_config(config)
    model = model if autocast else model.to(torch.bfloat16)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    held: list[Tensor] = []  # alive until they are counted, or an address could be used again

    def hold(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return tensor

    with (
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
        saved_tensors_hooks(hold, lambda tensor: tensor),
    ):
        model.base_model(input_ids=torch.randint(0, 50, (1, TOKENS)), use_cache=False)
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held if TOKENS in t.shape}
    return sum(size for place, size in found.items() if place not in own)


def main() -> None:
    for autocast, sharding in ((True, Sharding.DDP), (False, Sharding.FSDP2)):
        for hidden, heads, kv_heads, head_dim, inside in SHAPES:
            shape = Shape(10**6, 1, hidden, heads, kv_heads, head_dim, inside, 50, tied=True)
            measured = kept((hidden, heads, kv_heads, head_dim, inside), 4, autocast)
            measured -= kept((hidden, heads, kv_heads, head_dim, inside), 2, autocast)
            estimated = activations(shape, sharding, Training(1, 2 * TOKENS, None, False))
            name = "autocast" if autocast else "bfloat16"
            print(f"{name}, hidden {hidden}, {heads} heads: kept / estimated = {measured / estimated:.2f}")


if __name__ == "__main__":
    main()
