"""The gateway in front of a real vLLM: decisions, streams, tokens, clients that leave, and mistakes at the start.

One server under two names is both models. vLLM lives in an environment of its own (`scripts/engines-env`); without it
these tests are skipped.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from calibsft.decisions.policy import Policy
from calibsft.gateway.deciding import Reading, decide, read_response
from calibsft.gateway.requests import read_request
from calibsft.playground.base import train_base
from calibsft.playground.settings import BaseSettings
from calibsft.playground.world import training_questions
from calibsft.progress import Progress
from calibsft.responses.formats import get_format
from chat_servers import taught
from command_process import ENVIRONMENT, calibsft
from gateway_process import SECRETS, Running, gateway, policy, policy_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
OTHER = Path(os.environ.get("CALIBSFT_ENGINES_PYTHON", ROOT / ".venv-engines/bin/python"))
START_SECONDS, PATIENCE = 600.0, 120.0
KEY, LOCAL, STRONG = "key-of-the-server", "small", "large"
KEYS = {"CALIBSFT_LOCAL_API_KEY": KEY, "CALIBSFT_STRONG_API_KEY": KEY}
QUESTIONS = [question.text for question in training_questions()[:40]]
CONTEXT = 1 << 15
# It writes until it is stopped, or at the limit.
LIMIT = CONTEXT - 100
ENDLESS = {"ignore_eos": True, "max_tokens": LIMIT}
EACH_REQUEST = ("id", "created")


class Vllm:
    """A running server: what it answers without any gateway, and what it counts."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/v1"
        self._client = httpx2.Client(
            headers={"authorization": f"Bearer {KEY}"}, trust_env=False, timeout=PATIENCE
        )

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        reply = self._client.post(f"{self.url}/chat/completions", json=body)
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found

    def count(self, metric: str, label: str = "") -> float:
        page = self._client.get(self.url.removesuffix("/v1") + "/metrics").text
        lines = [line for line in page.splitlines() if line.startswith(f"vllm:{metric}{{") and label in line]
        assert lines, metric
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    if not OTHER.exists():
        pytest.skip(
            "make the engines' environment with scripts/engines-env, or name it in CALIBSFT_ENGINES_PYTHON"
        )
    base = tmp_path_factory.mktemp("base")
    settings = BaseSettings(steps=250, warmup_steps=20, head_dim=64)  # the least that vLLM takes on a CPU
    with Progress("base", settings.steps, "steps") as progress:
        train_base(settings, 0, base, progress)
    folder = taught(base, tmp_path_factory.mktemp("varied-base"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        OTHER, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", LOCAL, STRONG,
        "--host", "127.0.0.1", "--port", port, "--api-key", KEY, "--dtype", "float32", "--enforce-eager",
        "--block-size", 32, "--hf-overrides", json.dumps({"max_position_embeddings": CONTEXT}),
    ]  # fmt: skip
    environment = ENVIRONMENT | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen([*map(str, command)], env=environment)
    try:
        until(lambda: process.poll() is not None or is_up(f"http://127.0.0.1:{port}/health"), START_SECONDS)
        assert process.poll() is None, "the server did not start"
        yield Vllm(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()


def is_up(url: str) -> bool:
    with suppress(httpx2.HTTPError):
        return httpx2.get(url, trust_env=False).is_success
    return False


def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def chat(question: str, **fields: Any) -> Any:
    messages = [{"role": "user", "content": question}]
    return {"model": "calibsft", "messages": messages, "temperature": 0, "max_tokens": 40, **fields}


@pytest.fixture(scope="module")
def readings(vllm: Vllm) -> dict[str, tuple[Reading, dict[str, Any]]]:
    """What the local model says to each question without a gateway: as it is read, and as it came."""
    form, found = get_format("probability"), {}
    for question in QUESTIONS:
        asked = read_request(json.dumps(chat(question)).encode(), "calibsft")
        came = vllm.completion(asked.for_local(LOCAL, form, policy()))
        choice = came["choices"][0]
        reading = read_response(choice["message"]["content"], choice["finish_reason"] != "length", form)
        found[question] = reading, came
    return found


@pytest.fixture(scope="module")
def rules(readings: dict[str, tuple[Reading, dict[str, Any]]]) -> Policy:
    """A policy that keeps some of the questions and defers others."""
    stated = sorted({reading.reached for reading, _ in readings.values()})
    assert len(stated) > 1, stated
    return policy(threshold=stated[len(stated) // 2] / 100)


@pytest.fixture(scope="module")
def running(vllm: Vllm, rules: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = policy_file(tmp_path_factory.mktemp("gateway"), threshold=rules.threshold)
    models = {"local_model": LOCAL, "strong_model": STRONG}
    with gateway(path, vllm.url, vllm.url, check=True, environment=KEYS, **models) as found:
        yield found
        assert "Traceback" not in found.said() and "unexpected" not in found.said()


def client(running: Running) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=running.url,
        api_key="anything",
        max_retries=0,
        timeout=PATIENCE,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def plain(completion: dict[str, Any]) -> dict[str, Any]:
    """A completion without what differs from request to request, and without the decision."""
    return {name: value for name, value in completion.items() if name not in (*EACH_REQUEST, "calibsft")}


def test_forty_at_once_are_decided_by_what_the_model_says(
    vllm: Vllm, running: Running, rules: Policy, readings: dict[str, tuple[Reading, dict[str, Any]]]
) -> None:
    def ask(question: str) -> dict[str, Any]:
        reply = httpx2.post(
            f"{running.url}/chat/completions", json=chat(question), trust_env=False, timeout=PATIENCE
        )
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    before = running.count("calibsft_tokens_total")
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        replies = dict(zip(QUESTIONS, pool.map(ask, QUESTIONS), strict=True))
    outcomes, tokens = set(), 0
    for question, reply in replies.items():
        reading, came = readings[question]
        told, tokens = reply["calibsft"], tokens + came["usage"]["total_tokens"]
        expected = decide(rules, rules.id, reading, told["id"])
        assert told == expected.extension()
        outcomes.add(told["decision"])
        if told["decision"] == "deferred":
            direct = vllm.completion(chat(question, model=STRONG))
            assert plain(reply) == plain(direct), "the strong model's completion, untouched"
            tokens += direct["usage"]["total_tokens"]
        else:
            assert reply["choices"][0]["message"]["content"] == reading.answer
            assert reply["usage"] == came["usage"]
    assert outcomes == {"answered", "deferred"}
    assert running.count("calibsft_tokens_total") - before == tokens


@pytest.mark.parametrize("wanted", [True, False])
def test_a_stream_is_the_whole_reply_and_its_tokens_are_counted(
    wanted: bool, vllm: Vllm, running: Running, readings: dict[str, tuple[Reading, dict[str, Any]]]
) -> None:
    for decision in ("answered", "deferred"):
        question = next(q for q in QUESTIONS if outcome(running, q) == decision)
        direct = vllm.completion(chat(question, model=STRONG))
        expected = direct["choices"][0]["message"]["content"] if decision == "deferred" else None
        before = {
            name: running.count("calibsft_tokens_total", f'upstream="{name}"') for name in ("local", "strong")
        }
        options = {"stream_options": {"include_usage": True}} if wanted else {}
        chunks = list(client(running).chat.completions.create(**chat(question), stream=True, **options))
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert text == (readings[question][0].answer if expected is None else expected)
        assert (chunks[0].model_extra or {})["calibsft"]["decision"] == decision
        usage = {"local": readings[question][1]["usage"], "strong": direct["usage"]}
        spent = ("local", "strong") if decision == "deferred" else ("local",)
        for name in spent:
            counted = running.count("calibsft_tokens_total", f'upstream="{name}"') - before[name]
            assert counted == usage[name]["total_tokens"]
        shown = [chunk.usage.total_tokens for chunk in chunks if chunk.usage]
        assert shown == ([usage[spent[-1]]["total_tokens"]] if wanted else [])


def outcome(running: Running, question: str) -> str:
    reply = client(running).chat.completions.create(**chat(question))
    found: str = (reply.model_extra or {})["calibsft"]["decision"]
    return found


def test_a_client_that_leaves_ends_the_work_of_the_server(vllm: Vllm, running: Running) -> None:
    unsure = next(q for q in QUESTIONS if outcome(running, q) == "deferred")
    before = vllm.count("generation_tokens_total")
    stream = client(running).chat.completions.create(**chat(unsure), extra_body=ENDLESS, stream=True)
    for _ in range(5):
        next(stream)
    assert vllm.count("num_requests_running") == 1
    stream.close()
    until(lambda: vllm.count("num_requests_running") == running.count("calibsft_in_flight") == 0)
    left = vllm.count("generation_tokens_total")
    assert left - before < LIMIT, "it did not run to its end"
    body = chat(unsure) | ENDLESS
    with pytest.raises(httpx2.TimeoutException):
        httpx2.post(f"{running.url}/chat/completions", json=body, trust_env=False, timeout=4)
    until(lambda: vllm.count("num_requests_running") == running.count("calibsft_in_flight") == 0)
    # The local model, which is asked first, writes far fewer.
    assert 100 < vllm.count("generation_tokens_total") - left < LIMIT


@pytest.mark.parametrize(
    "model, key, told",
    [
        ("nobody", KEY, "has no model 'nobody' (it lists 'small', 'large'); correct --local-model"),
        (None, KEY, "lists 'small', 'large' and not one model; choose it with --local-model"),
        (LOCAL, "wrong", "refuses the API key (401); set the right one in CALIBSFT_LOCAL_API_KEY"),
    ],
    ids=["a wrong model", "no model", "a wrong key"],
)
def test_a_wrong_model_or_key_is_one_sentence_at_the_start(
    model: str | None, key: str, told: str, vllm: Vllm, tmp_path: Path
) -> None:
    clean = {name: value for name, value in ENVIRONMENT.items() if name not in SECRETS}
    rules = policy_file(tmp_path, otherwise="abstain")
    named = [] if model is None else ["--local-model", model]
    done = subprocess.run(
        calibsft("serve", "--policy", rules, "--local", vllm.url, "--port", 0, *named),
        env=clean | {"CALIBSFT_LOCAL_API_KEY": key, "NO_PROXY": "127.0.0.1"},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and done.stderr.count("\n") == 1 and KEY not in done.stderr
