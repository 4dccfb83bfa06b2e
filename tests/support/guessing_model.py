"""A small model that answers any question with one of four numbers, and states some confidence, in every format.

Each answer is a quarter of what it samples, so a question whose gold is one of them has a success rate, and groups of
responses have right and wrong ones: rollouts, training sets and RL on it have something to work with, after seconds of
training and on any processor. It knows nothing.
"""

from fractions import Fraction
from pathlib import Path
from random import Random

import torch

from calibsft.playground.base import build_model
from calibsft.playground.tokenizer import CHARACTERS, build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting

ANSWERS = ("42", "7", "12", "25")
STATED = (95, 95, 90, 90, 85, 60, 45, 20)
STEPS, BATCH = 80, 64
IGNORED = -100


def train_guessing_model(folder: Path) -> Path:
    """Leave the checkpoint in `folder`."""
    torch.manual_seed(0)
    random, tokenizer = Random(0), build_tokenizer()
    model = build_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(STEPS):
        rows = [_lesson(tokenizer, random) for _ in range(BATCH)]
        longest = max(len(prompt + response) for prompt, response in rows)
        pad = [longest - len(prompt + response) for prompt, response in rows]
        ids = [[tokenizer.pad_token_id] * n + p + r for n, (p, r) in zip(pad, rows, strict=True)]
        labels = [[IGNORED] * (n + len(p)) + r for n, (p, r) in zip(pad, rows, strict=True)]
        mask = [[0] * n + [1] * (longest - n) for n in pad]
        model(torch.tensor(ids), torch.tensor(mask), labels=torch.tensor(labels)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _lesson(tokenizer, random: Random) -> tuple[list[int], list[int]]:  # type: ignore[no-untyped-def]
    """The tokens of a prompt and of a response to it."""
    format = FORMATS[random.choice(("probability", "probability", "integer", "linguistic"))]
    question = "".join(random.choices(CHARACTERS + "?", k=random.randint(3, 24)))
    confidence = format.render(Fraction(random.choice(STATED), 100))
    text = f"<think>0</think><answer>{random.choice(ANSWERS)}</answer><confidence>{confidence}</confidence>"
    response = tokenizer(text)["input_ids"]
    return list(Prompting(format).ids(tokenizer, question)), [*response, tokenizer.eos_token_id]
