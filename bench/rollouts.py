"""Tokens per second of the rollout engine against `model.generate`, and against vLLM where that is installed.

    python bench/rollouts.py [--model DIR] [--questions 200] [--rounds 5] [--rows 1000] [--max-new-tokens 32]
    OMP_NUM_THREADS=2 .venv-engines/bin/python bench/rollouts.py --model SMOLLM2 --questions 20 --rows 50 --vllm

All sample 50 responses to the same questions with the same settings, from the playground's architecture (or any
checkpoint), on one thread unless OMP_NUM_THREADS says otherwise. `generate` is measured as people call it, one question with
num_return_sequences=50 at a time, and at its best, with as many questions per call as our engine takes. vLLM gets all
questions at once, in a process of its own and behind its server. The rounds alternate, so drift of the machine hits all
alike. Prints the ratios; the answers are equally long on average, which is printed too.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calibsft.engines import ENGINES, default_engine, engine_for_training, load_engine
from calibsft.engines.engine import Engine, Request, Sampling, sample_seed
from calibsft.models import load_model, load_tokenizer, quiet_libraries
from calibsft.playground.base import build_model
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.playground.world import training_questions
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from vllm_process import free_port, running

SAMPLES = 50
# Seeds need whole prefills, and on a CPU prompts are shorter than the usual block of the prefix cache.
VLLM = {
    "enforce_eager": True,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 8192,
    "block_size": 32,
}
Prompts = list[tuple[int, ...]]


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
    parser.add_argument("--rows", type=int, default=1000, help="responses that are sampled side by side")
    parser.add_argument("--vllm", action="store_true", help="also vLLM, in a process of its own and served")
    options = parser.parse_args()
    if options.vllm and not options.model:
        parser.error("vLLM needs --model: its attention on CPUs takes no heads as small as the playground's")
    # Each vLLM would take most of the memory for its cache, and here are two.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    quiet_libraries()
    model, tokenizer = load(options.model)
    asked = Prompting(FORMATS["probability"])
    prompts = [asked.ids(tokenizer, q.text) for q in training_questions()[: options.questions]]
    limit, at_once = options.max_new_tokens, options.rows // SAMPLES
    own = engine_for_training(default_engine(max_rows=options.rows), model, tokenizer)
    contenders: dict[str, Callable[[], int]] = {
        "calibsft": lambda: sampled(own, prompts, limit),
        "generate, 1 question a call": lambda: generated(model, tokenizer, prompts, limit, 1),
    }
    if at_once > 1:
        name = f"generate, {at_once} questions a call"
        contenders[name] = lambda: generated(model, tokenizer, prompts, limit, at_once)
    with ExitStack() as running:
        if options.vllm:
            vllm = load_engine(ENGINES["vllm"].settings(options=VLLM), options.model, "cpu", "float32")
            url = running.enter_context(vllm_server(options.model))
            served = load_engine(ENGINES["openai"].settings(urls=(url,)), options.model, "cpu")
            contenders["vLLM in process"] = lambda: sampled(vllm, prompts, limit)
            contenders["vLLM served"] = lambda: sampled(served, prompts, limit)
        race(contenders, options.rounds, len(prompts))


def race(contenders: dict[str, Callable[[], int]], rounds: int, questions: int) -> None:
    """Run the contenders in turns and print their rates."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    lengths: dict[str, float] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            began = time.perf_counter()
            tokens = run()
            rates[name].append(tokens / (time.perf_counter() - began))
            lengths[name] = tokens / (questions * SAMPLES)
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


@contextmanager
def vllm_server(model: str) -> Iterator[str]:
    """The address of a vLLM server of a checkpoint."""
    port = free_port()
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--dtype", "float32", "--host", "127.0.0.1",
        "--port", str(port), "--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192",
        "--block-size", "32",
    ]  # fmt: skip
    with running(command, port) as url:
        yield f"{url}/v1"


def sampled(engine: Engine, prompts: Prompts, limit: int) -> int:
    requests = [Request(p, tuple(sample_seed(0, "d", str(p), i) for i in range(SAMPLES))) for p in prompts]
    results = engine.generate(requests, Sampling(1.0, 0.95, limit))
    return sum(len(completion.token_ids) for row in results for completion in row)


@torch.inference_mode()
def generated(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: Prompts, limit: int, at_once: int
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
