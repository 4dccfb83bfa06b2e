"""All engines keep one contract: the same records, exact ids, right log-probabilities, the same draw for the same seed.

vLLM and llama.cpp live in an environment of their own (`scripts/engines-env`); without it their tests are skipped.
"""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

import sampled_by
from calibsft.models import load_tokenizer
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.spans import decode

pytestmark = pytest.mark.timeout(1200)
ROOT = Path(__file__).parents[2]
OTHER = Path(os.environ.get("CALIBSFT_ENGINES_PYTHON", ROOT / ".venv-engines/bin/python"))
CLOSE = 1e-3
# vLLM on a CPU: seeds need whole prefills.
VLLM = {
    "enforce_eager": True,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 8192,
    "block_size": 32,
}
ENVIRONMENT = os.environ | {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests/support'}",
}


@contextmanager
def running(command: list[Any], port: int) -> Iterator[str]:
    """The URL of the server that a command starts."""
    process = subprocess.Popen([OTHER, *command], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 600
        while True:
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def vllm_server(checkpoint: Path, port: int) -> list[Any]:
    options = [
        f"--{name.replace('_', '-')}={value}" for name, value in VLLM.items() if not isinstance(value, bool)
    ]
    return [
        "-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint, "--served-model-name", "tiny",
        "--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", "--host", "127.0.0.1",
        "--port", str(port), *options,
    ]  # fmt: skip


def llamacpp_server(checkpoint: Path, port: int) -> list[Any]:
    # With one slot: beside other requests its figures are rounded otherwise, and a seed may draw another token.
    return [
        ROOT / "scripts/llamacpp-server", checkpoint / "float32.gguf", "--port", str(port), "--slots", "1",
        "--context", "512", "--threads", "1", "--float32",
    ]  # fmt: skip


SERVERS = {"vllm-served": vllm_server, "llama.cpp": llamacpp_server}
ENGINES = ("transformers", *(pytest.param(name, marks=pytest.mark.slow) for name in ("vllm", *SERVERS)))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name != "transformers" and not OTHER.exists():
        pytest.skip(
            "make the engines' environment with scripts/engines-env, or name it in CALIBSFT_ENGINES_PYTHON"
        )
    return name


@pytest.fixture(scope="module")
def checkpoint(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that the engine takes."""
    folder = tmp_path_factory.mktemp("checkpoint")
    return smollm2(folder) if engine == "llama.cpp" else random_weights(folder)


def random_weights(folder: Path) -> Path:
    """A model of random weights with a head dimension of 64, which vLLM asks for, and the playground's tokenizer."""
    tokenizer = build_tokenizer()
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=64, max_position_embeddings=256,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        initializer_range=0.3,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def smollm2(folder: Path) -> Path:
    """A real model with its weights in float32, also for llama.cpp."""
    source = Path(os.environ.get("CALIBSFT_SMOLLM2", ""))
    if not (source / "smollm2.gguf").exists():
        pytest.skip("make the checkpoint with scripts/smollm2-checkpoint, and name it in CALIBSFT_SMOLLM2")
    shutil.copytree(source, folder, dirs_exist_ok=True)
    command = [
        OTHER,
        ROOT / "tests/support/float32_gguf.py",
        folder / "smollm2.gguf",
        folder / "float32.gguf",
    ]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def found(engine: str, checkpoint: Path) -> dict[str, Any]:
    """What an engine samples."""
    if engine == "transformers":
        return _sampled(Path(sys.executable), {"name": "transformers"}, checkpoint)
    if engine == "vllm":
        return _sampled(OTHER, {"name": "vllm", "options": VLLM}, checkpoint)
    port = free_port()
    with running(SERVERS[engine](checkpoint, port), port) as url:
        return _sampled(Path(sys.executable), {"name": "openai", "urls": [url]}, checkpoint)


def _sampled(python: Path, settings: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    command = [python, sampled_by.__file__, json.dumps(settings), checkpoint]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> dict[str, Any]:
    return _sampled(Path(sys.executable), {"name": "transformers"}, checkpoint)


def each(rows: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [completion for row in rows for completion in row]


def test_prompts_and_ends_are_the_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["prompts"] == expected["prompts"] and found["end_ids"] == expected["end_ids"]


def test_the_same_seed_draws_the_same_whatever_is_asked_beside_it(found: dict[str, Any]) -> None:
    ids = [[c["ids"] for c in row] for row in found["drawn"]]
    assert ids == [[c["ids"] for c in row] for row in found["again"]]
    assert [c["ids"] for c in found["part"][0]][-2:] == ids[1][-2:]
    assert len({tuple(c["ids"]) for c in each(found["drawn"])}) > 12, (
        "different seeds draw different responses"
    )
    assert found["told"] == [[i, j] for i in range(3) for j in range(8)]


def test_greedy_and_its_figures_are_those_of_transformers(
    found: dict[str, Any], expected: dict[str, Any], engine: str
) -> None:
    for ours, theirs in zip(each(found["greedy"]), each(expected["greedy"]), strict=True):
        assert (ours["ids"], ours["finished"]) == (theirs["ids"], theirs["finished"])
        assert _close(ours["logprobs"], theirs["logprobs"], engine)


def _close(ours: list[float], theirs: list[float], engine: str) -> bool:
    if engine == "llama.cpp" and math.isnan(ours[-1]):
        ours, theirs = ours[:-1], theirs[:-1]  # it does not list the end token
    return ours == pytest.approx(theirs, abs=CLOSE)


@pytest.mark.parametrize("kind", ["drawn", "narrow", "stopped"])
def test_log_probabilities_are_the_models_own_at_temperature_one(
    found: dict[str, Any], checkpoint: Path, engine: str, kind: str
) -> None:
    model = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    for prompt, row in zip(found["prompts"], found[kind], strict=True):
        for completion in row:
            ids = torch.tensor([[*prompt, *completion["ids"]]])
            with torch.no_grad():
                scores = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            own = scores.gather(1, torch.tensor(completion["ids"])[:, None])[:, 0].tolist()
            assert _close(completion["logprobs"], own, engine) and completion["error"] is None


def test_responses_end_with_the_end_token_or_at_the_limit(found: dict[str, Any]) -> None:
    for completion in each(found["drawn"] + found["greedy"]):
        assert completion["finished"] == (completion["ids"][-1] in found["end_ids"])
        assert completion["finished"] or len(completion["ids"]) == sampled_by.LIMIT
        assert not set(completion["ids"][:-1]) & set(found["end_ids"])
    assert any(completion["finished"] for completion in each(found["drawn"]))


def test_a_stop_string_ends_a_response_and_stays_in_it(found: dict[str, Any], checkpoint: Path) -> None:
    tokenizer = load_tokenizer(str(checkpoint))
    for free, stopped in zip(each(found["drawn"]), each(found["stopped"]), strict=True):
        whole, text = (decode(tokenizer, c["ids"]) for c in (free, stopped))
        if sampled_by.STOP in whole:
            assert text == whole[: whole.index(sampled_by.STOP) + 1] and stopped["finished"]
        else:
            assert (stopped["ids"], stopped["finished"]) == (free["ids"], free["finished"])


def test_probabilities_of_next_tokens_are_right_where_they_are_known(
    found: dict[str, Any], expected: dict[str, Any], engine: str
) -> None:
    ours, theirs = np.array(found["next"]), np.array(expected["next"])
    known = np.isfinite(ours)
    assert np.abs(ours - theirs)[known].max() < CLOSE
    # A server of completions names the 20 most probable tokens only.
    partly = engine in SERVERS
    assert known.all() or (partly and theirs[~known].max() <= theirs[known].max() and known.any())
