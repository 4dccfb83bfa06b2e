"""Small models of other architectures than the playground's, with random weights."""

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def other_models(vocabulary: int, end: int) -> dict[str, PreTrainedModel]:
    torch.manual_seed(1)
    common = {"vocab_size": vocabulary, "eos_token_id": end, "bos_token_id": None, "pad_token_id": 0}
    return {
        "llama": LlamaForCausalLM(LlamaConfig(**SMALL, **common, num_key_value_heads=2)),
        "gpt2": GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **common)),
        # two of three layers look back over a sliding window shorter than the sequence
        "gemma3": Gemma3ForCausalLM(
            Gemma3TextConfig(**(SMALL | {"num_hidden_layers": 3}), **common, num_key_value_heads=2, head_dim=8,
                             sliding_window=8, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
        ),
    }  # fmt: skip
