"""Tokens per second of the rollout engine against `model.generate`, side by side in one process.

    python bench/rollouts.py [--model DIR] [--questions 200] [--rounds 5]

Both sample 50 responses to the same questions with the same settings on one thread, from the playground's architecture
(or any checkpoint). `generate` is measured as people call it, one question with num_return_sequences=50 at a time, and at
its best, with as many questions per call as our engine takes; the rounds alternate, so drift of the machine hits all
alike. Prints the ratios; the answers of both are equally long on average, which is printed too.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calibsft.engines import default_engine, engine_for_training
from calibsft.engines.engine import Request, Sampling, sample_seed
from calibsft.models import load_model, load_tokenizer, quiet_libraries
from calibsft.playground.base import build_model
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.playground.world import training_questions
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting

SAMPLES = 50
ROWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", help="checkpoint folder; default: the playground's architecture with random weights"
    )
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-new-tokens", type=int, default=32)
    options = parser.parse_args()
    quiet_libraries()
    model, tokenizer = load(options.model)
    asked = Prompting(FORMATS["probability"])
    prompts = [asked.ids(tokenizer, q.text) for q in training_questions()[: options.questions]]
    contenders: dict[str, Callable[[], int]] = {
        "calibsft": lambda: ours(model, tokenizer, prompts, options.max_new_tokens),
        f"generate, {ROWS // SAMPLES} questions a call": lambda: theirs(
            model, tokenizer, prompts, options.max_new_tokens, ROWS // SAMPLES
        ),
        "generate, 1 question a call": lambda: theirs(model, tokenizer, prompts, options.max_new_tokens, 1),
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    lengths: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, run in contenders.items():
            began = time.perf_counter()
            tokens = run()
            rates[name].append(tokens / (time.perf_counter() - began))
            lengths[name] = tokens / (len(prompts) * SAMPLES)
    first = median(rates["calibsft"])
    for name, values in rates.items():
        print(
            f"{name:<34} {median(values):>10,.0f} tokens/s  {lengths[name]:5.2f} tokens a response  ratio {first / median(values):5.2f}"
        )


def load(folder: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if folder:
        return load_model(folder, "cpu"), load_tokenizer(folder)
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    return build_model(tokenizer).eval(), tokenizer


def ours(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: list[tuple[int, ...]], limit: int
) -> int:
    requests = [Request(p, tuple(sample_seed(0, "d", str(p), i) for i in range(SAMPLES))) for p in prompts]
    engine = engine_for_training(default_engine(max_rows=ROWS), model, tokenizer)
    results = engine.generate(requests, Sampling(1.0, 0.95, limit))
    return sum(len(completion.token_ids) for row in results for completion in row)


@torch.inference_mode()
def theirs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[tuple[int, ...]],
    limit: int,
    at_once: int,
) -> int:
    tokens = 0
    for i in range(0, len(prompts), at_once):
        ids = torch.tensor(prompts[i : i + at_once])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_p=0.95, top_k=None,
            num_return_sequences=SAMPLES, max_new_tokens=limit, pad_token_id=tokenizer.pad_token_id,
        )[:, ids.shape[1] :]  # fmt: skip
        # what follows the end token is padding
        ended = (out == tokenizer.eos_token_id).long()
        tokens += int((ended.cumsum(-1) - ended == 0).sum())
    return tokens


if __name__ == "__main__":
    main()
