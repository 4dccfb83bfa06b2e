"""The file for LiteLLM in a real LiteLLM proxy: what clients get through it from a real gateway.

LiteLLM lives in an environment of its own (`scripts/litellm-env`); without it these tests are skipped.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from command_process import ENVIRONMENT
from gateway_process import Running, gateway, policy_file
from scripted_server import ANSWER, Asked, Scripted, Sent, chats, confident, says

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
LITELLM = Path(os.environ.get("CALIBSFT_LITELLM", ROOT / ".venv-litellm/bin/litellm"))
START_SECONDS = 300.0
KEYS = {
    "LITELLM_MASTER_KEY": "sk-of-the-proxy-9f2c41d07be85a36",
    "CALIBSFT_SERVE_TOKEN": "of-the-gateway",
    "CALIBSFT_STRONG_API_KEY": "of-the-strong-model",
}
SURE, UNSURE, STRONG = "Is it certain?", "Is it doubtful?", "the strong answer"


@dataclass
class Proxied:
    """A proxy in front of a gateway, and the official client of it."""

    client: openai.OpenAI
    gateway: Running

    def ask(self, question: str) -> Any:
        """The reply and its headers."""
        raw = self.client.chat.completions.with_raw_response.create(**chat(question))
        return raw.parse(), raw.headers

    def stream(self, question: str) -> Any:
        """The chunks and the headers."""
        raw = self.client.chat.completions.with_raw_response.create(**chat(question), stream=True)
        return list(raw.parse()), raw.headers


def chat(question: str) -> Any:
    return {"model": "org/small", "messages": [{"role": "user", "content": question}]}


def text(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


@contextmanager
def proxied(folder: Path, local: Scripted, strong: Scripted, **policy: Any) -> Iterator[Proxied]:
    """A proxy with the file that `calibsft export-policy litellm` writes for such a policy."""
    if not LITELLM.exists():
        pytest.skip(
            "make LiteLLM's environment with scripts/litellm-env, or name its litellm in CALIBSFT_LITELLM"
        )
    rules, written = policy_file(folder, model="org/small", **policy), folder / "litellm.yaml"
    keys = {name: KEYS[name] for name in ("CALIBSFT_SERVE_TOKEN", "CALIBSFT_STRONG_API_KEY")}
    asked = {"check": True, "environment": keys}
    with gateway(rules, local.url, strong.url, **asked) as running:
        where = ["--gateway", running.url, "--strong", strong.url, "--strong-model", "strong-model"]
        command = [sys.executable, "-m", "calibsft", "export-policy", "litellm", rules, "--out", written]
        subprocess.run([*map(str, command), *where], env=ENVIRONMENT, check=True, capture_output=True)
        with proxy(written, folder / "proxy.log") as url:
            client = openai.OpenAI(
                base_url=f"{url}/v1",
                api_key=KEYS["LITELLM_MASTER_KEY"],
                max_retries=0,
                http_client=openai.DefaultHttpxClient(trust_env=False),
            )
            yield Proxied(client, running)


@contextmanager
def proxy(config: Path, log: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Without the variable it asks the internet for prices first.
    environment = {**os.environ, **KEYS, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    command = [LITELLM, "--config", config, "--host", "127.0.0.1", "--port", port]
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
    with log.open("wb") as output:
        process = subprocess.Popen([*map(str, command)], env=environment, stdout=output, stderr=output)
    try:
        while not is_up(url):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield url
    finally:
        process.kill()
        process.wait()


def is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health/liveliness", trust_env=False).is_success
    except httpx2.HTTPError:
        return False


def states(asked: Asked) -> Sent:
    return says(confident("0.95" if SURE in asked.body["messages"][-1]["content"] else "0.10"))


@pytest.fixture(autouse=True)
def models(local_server: Scripted, strong_server: Scripted) -> None:
    local_server.reset(states)
    strong_server.reset(chats(STRONG))


@pytest.fixture(scope="module")
def deferring(
    local_server: Scripted, strong_server: Scripted, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    local_server.reset(states)
    with proxied(tmp_path_factory.mktemp("deferring"), local_server, strong_server) as found:
        yield found


def test_an_answer_and_a_deferral_pass_through_with_the_decision(
    deferring: Proxied, strong_server: Scripted
) -> None:
    for question, content, decision in ((SURE, ANSWER, "answered"), (UNSURE, STRONG, "deferred")):
        reply, headers = deferring.ask(question)
        assert reply.choices[0].message.content == content
        assert reply.calibsft["decision"] == headers["llm_provider-x-calibsft-decision"] == decision
    (deferred,) = strong_server.chats
    assert deferred.headers["authorization"] == f"Bearer {KEYS['CALIBSFT_STRONG_API_KEY']}"
    assert deferred.body["messages"] == [{"role": "user", "content": UNSURE}]


def test_streams_pass_through_and_headers_have_the_decision(deferring: Proxied) -> None:
    for question, content, decision in ((SURE, ANSWER, "answered"), (UNSURE, STRONG, "deferred")):
        chunks, headers = deferring.stream(question)
        assert text(chunks) == content and chunks[-1].choices[-1].finish_reason == "stop"
        assert headers["llm_provider-x-calibsft-decision"] == decision
        assert headers["llm_provider-x-calibsft-id"].startswith("chatcmpl-")


def test_the_file_has_no_key_and_the_gateway_asks_for_its_token(deferring: Proxied) -> None:
    (written,) = deferring.gateway.log.parent.glob("litellm.yaml")
    assert not any(key in written.read_text() for key in KEYS.values())
    reply = httpx2.post(f"{deferring.gateway.url}/chat/completions", json=chat(SURE), trust_env=False)
    assert reply.status_code == 401


def test_without_the_gateway_the_strong_model_is_asked(
    local_server: Scripted, strong_server: Scripted, tmp_path: Path
) -> None:
    with proxied(tmp_path, local_server, strong_server) as found:
        found.gateway.process.kill()
        found.gateway.process.wait()
        local_server.reset(states)
        reply, _ = found.ask(SURE)
        chunks, _ = found.stream(SURE)
    assert reply.choices[0].message.content == text(chunks) == STRONG
    assert local_server.chats == [] and "calibsft" not in (reply.model_extra or {})


def test_a_policy_that_abstains_abstains_and_never_asks_another_model(
    local_server: Scripted, strong_server: Scripted, tmp_path: Path
) -> None:
    with proxied(tmp_path, local_server, strong_server, otherwise="abstain") as found:
        strong_server.reset(chats(STRONG))
        reply, _ = found.ask(UNSURE)
        assert reply.calibsft["decision"] == "abstained"
        assert reply.choices[0].message.content == "I am not sure enough to answer this."
        chunks, headers = found.stream(UNSURE)
        assert text(chunks) == "I am not sure enough to answer this."
        assert headers["llm_provider-x-calibsft-decision"] == "abstained"
        found.gateway.process.kill()
        found.gateway.process.wait()
        with pytest.raises(openai.APIError):
            found.ask(SURE)
    assert strong_server.chats == []
