"""Train the playground's base model from scratch: an ordinary Hugging Face checkpoint.

A small transformer learns a world's lessons - question, trace, answer, and a confidence that does not know whether the
answer is right - by plain next-token prediction on the response. It uses one torch thread: two are slower if the other core
is busy. Does not resume, since it is short.
"""

from collections.abc import Iterator
from math import cos, pi
from pathlib import Path
from random import Random

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Olmo2Config,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

from calibsft.artifacts import CARD, write_text
from calibsft.cards import model_card
from calibsft.models import quiet_libraries
from calibsft.playground.settings import BaseSettings
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.playground.worlds import WORLDS, World
from calibsft.progress import Progress
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting

IGNORED = -100
TITLE = "The playground's base model"
CONFIGURATIONS: dict[str, type[PreTrainedConfig]] = {
    "qwen3": Qwen3Config,
    "llama": LlamaConfig,
    "olmo2": Olmo2Config,
}


def build_model(tokenizer: PreTrainedTokenizerFast, settings: BaseSettings | None = None) -> PreTrainedModel:
    """A newly initialised model, small enough for one core."""
    settings = settings or BaseSettings()
    config = CONFIGURATIONS[settings.architecture](
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=64,
        tie_word_embeddings=settings.tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def train_base(settings: BaseSettings, seed: int, folder: Path, progress: Progress) -> None:
    """Train for `settings.steps` steps and save model and tokenizer into `folder`."""
    quiet_libraries()
    torch.manual_seed(seed)
    world = WORLDS[settings.world]
    tokenizer = build_tokenizer(world.characters)
    model = build_model(tokenizer, settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: _warm_up_then_cosine(step, settings)
    )
    batches = _batches(tokenizer, world, settings.batch_size, Random(f"base {seed}"))
    for _ in range(settings.steps):
        loss = model(**next(batches)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        progress.advance(1, note=f"loss {loss.item():.3f}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_text(
        folder / CARD,
        model_card("", ("playground",), TITLE, world.story, settings, Prompting(FORMATS["probability"])),
    )


def _warm_up_then_cosine(step: int, settings: BaseSettings) -> float:
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return 0.05 + 0.95 * (1 + cos(pi * done)) / 2


def _batches(
    tokenizer: PreTrainedTokenizerFast, world: World, size: int, random: Random
) -> Iterator[dict[str, torch.Tensor]]:
    """Endless batches; labels cover the response and its end, not the prompt."""
    encode = tokenizer.get_vocab().__getitem__
    pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    while True:
        rows = []
        for _ in range(size):
            asked, response = world.draw_lesson(random)
            prompt = tokenizer.apply_chat_template(asked, tokenize=False)
            pieces = [
                [encode(piece) for piece, _ in pre_tokenizer.pre_tokenize_str(text)]
                for text in (prompt, response)
            ]
            rows.append((pieces[0], pieces[1] + [tokenizer.eos_token_id]))
        yield _pad(rows, tokenizer.pad_token_id)


def _pad(rows: list[tuple[list[int], list[int]]], pad: int) -> dict[str, torch.Tensor]:
    ids = pad_sequence([torch.tensor(prompt + response) for prompt, response in rows], True, pad)
    labels = [torch.tensor([IGNORED] * len(prompt) + response) for prompt, response in rows]
    padded = pad_sequence(labels, True, IGNORED)
    return {"input_ids": ids, "attention_mask": (ids != pad).long(), "labels": padded}
