"""`calibsft serve`: what keeps it from starting, what it says, which keys go where, and how it ends."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from calibsft.cli import serve
from calibsft.gateway.check import TOKENS
from calibsft.responses.formats import get_format, messages
from command import Command
from gateway_process import Running, gateway, policy_file
from scripted_server import (
    EVENTS,
    PATIENCE,
    Asked,
    Scripted,
    Sent,
    chats,
    chunk,
    confident,
    event,
    fails,
    nobody,
    one_after_another,
    says,
    scripted_server,
    sends,
)

LOCAL = "http://127.0.0.1:1/v1"
SECRET = "sk-canary-5"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return policy_file(tmp_path, otherwise="abstain")


def one_sentence(result: tuple[int, str, str]) -> str:
    """Why it did not start, after a look that nothing else was said."""
    code, out, err = result
    assert code == 2 and out == ""
    assert err.startswith("calibsft: ") and err.count("\n") == 1 and "Traceback" not in err
    return err


@pytest.mark.parametrize(
    "text, why",
    [
        (None, "cannot be read (No such file or directory)"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "not a policy"),
        ('{"kind": "other"}', "not a policy"),
        ('{"kind": "calibsft-policy", "version": 1}', "version 1 is not 3"),
        ('{"kind": "calibsft-policy", "version": 2}', "not a complete policy of version 2"),
        ('{"kind": "calibsft-policy", "version": 3}', "otherwise"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(
    calibsft: Command, tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    told = one_sentence(calibsft("serve", "--policy", path, "--local", LOCAL, "--port", 0))
    assert str(path) in told and why in told


def test_a_folder_is_no_policy(calibsft: Command, tmp_path: Path) -> None:
    assert "cannot be read" in one_sentence(calibsft("serve", "--policy", tmp_path, "--local", LOCAL))


@pytest.mark.parametrize(
    "fields, why",
    [
        (
            {"otherwise": "defer"},
            "the policy defers questions; name the server of the strong model with --strong",
        ),
        ({"otherwise": "abstain", "on_local_failure": "defer"}, "defers when the local model fails"),
    ],
)
def test_a_policy_that_defers_needs_a_strong_model(
    calibsft: Command, tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    told = one_sentence(calibsft("serve", "--policy", policy_file(tmp_path, **fields), "--local", LOCAL))
    assert why in told


BAD_URLS = [
    "",
    "localhost:8001",
    "127.0.0.1:8001/v1",
    "ftp://host/v1",
    "file:///etc/passwd",
    "http://",
    "http:///v1",
    "http://host:port/v1",
    "http://host:99999/v1",
    "http://host:0/v1",
    "http://[::1/v1",
    "http://host/v1?key=canary",
    "http://host/v1#x",
    "ftp://me:canary@host/v1",
    "http://me:canary@/v1",
    "http://me:ca/nary@host/v1",
    "http://a..b/v1",
    f"http://{'x' * 80}.com/v1",
]


@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("option", ["local", "strong"])
def test_what_is_no_url_of_a_server_is_refused_and_not_repeated(
    calibsft: Command, policy: Path, option: str, url: str
) -> None:
    urls = {"local": LOCAL, "strong": LOCAL, option: url}
    told = one_sentence(
        calibsft("serve", "--policy", policy, "--local", urls["local"], "--strong", urls["strong"])
    )
    assert f"--{option} is not the URL of a server" in told and "canary" not in told


@pytest.mark.parametrize(
    "url", ["http://me:canary@host/v1", "https://canary@host", "http://:canary@host:80/v1"]
)
def test_a_url_with_a_password_is_refused_and_not_repeated(calibsft: Command, policy: Path, url: str) -> None:
    told = one_sentence(calibsft("serve", "--policy", policy, "--local", url))
    assert "--local holds a user name or password; put the key into the environment" in told
    assert "canary" not in told


def test_a_port_that_is_taken_is_told(calibsft: Command, policy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = one_sentence(calibsft("serve", "--policy", policy, "--local", LOCAL, "--port", port))
    assert f"127.0.0.1:{port} cannot be taken (Address already in use)" in told and "--port" in told


@pytest.mark.parametrize(
    "host, token, warned",
    [("0.0.0.0", "", True), ("0.0.0.0", "t", False), ("127.0.0.2", "", False), ("localhost", "", False)],
)
def test_an_open_gateway_on_an_open_address_is_warned_of(
    calibsft: Command, policy: Path, monkeypatch: pytest.MonkeyPatch, host: str, token: str, warned: bool
) -> None:
    monkeypatch.setenv("CALIBSFT_SERVE_TOKEN", token)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        _, _, err = calibsft("serve", "--policy", policy, "--local", LOCAL, "--host", host, "--port", port)
    assert "cannot be taken" in err and ("set CALIBSFT_SERVE_TOKEN" in err) == warned


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid", "x" * 300, "fe80::1%nowhere"])
def test_an_address_that_is_not_ours_is_told(calibsft: Command, policy: Path, host: str) -> None:
    code, _, err = calibsft("serve", "--policy", policy, "--local", LOCAL, "--host", host, "--port", 0)
    assert code == 2 and "cannot be taken" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "name", ["CALIBSFT_LOCAL_API_KEY", "CALIBSFT_STRONG_API_KEY", "OPENAI_API_KEY", "CALIBSFT_SERVE_TOKEN"]
)
@pytest.mark.parametrize("value", ["canary\nx: y", "canary\u00e9", "can\tary"])
def test_a_key_or_token_that_cannot_be_sent_is_refused_by_its_variable(
    calibsft: Command, policy: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    told = one_sentence(calibsft("serve", "--policy", policy, "--local", LOCAL, "--strong", LOCAL))
    assert name in told and "canary" not in told


def test_missing_packages_are_named_with_the_remedy(
    calibsft: Command, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden, find_spec = ("httptools", "uvicorn"), serve.find_spec
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name in hidden else find_spec(name))
    told = one_sentence(calibsft("serve", "--policy", policy, "--local", LOCAL))
    assert "needs httptools, uvicorn; run pip install 'calibsft[serve]'" in told


def test_the_command_is_known_without_its_packages() -> None:
    """Help and every other command work on an installation without the extra."""
    program = (
        "import sys\n"
        "for name in ('httptools', 'prometheus_client', 'starlette', 'uvicorn', 'uvloop'):\n"
        "    sys.modules[name] = None\n"
        "sys.argv = ['calibsft', 'serve', '--help']\n"
        "from calibsft.cli import main\n"
        "main()\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0 and "--policy" in found.stdout


@pytest.mark.parametrize(
    "option",
    [("--concurrency", "0"), ("--queue", "-1"), ("--timeout", "0"), ("--retries", "-1"), ("--port", "65536")],
)
def test_numbers_that_mean_nothing_are_refused(
    calibsft: Command, policy: Path, option: tuple[str, str]
) -> None:
    told = one_sentence(calibsft("serve", "--policy", policy, "--local", LOCAL, *option))
    assert option[0] in told


# Servers that cannot be used

WITHOUT = "or start the gateway with --no-check"
NO_SERVER = "which usually ends in /v1"
KEY = {"local": "CALIBSFT_LOCAL_API_KEY", "strong": "CALIBSFT_STRONG_API_KEY"}


@dataclass(frozen=True)
class Unusable:
    """How a server answers that cannot be used, and what is said about it."""

    why: str
    models: Sent | None = None
    answer: Sent | None = None
    named: bool = True


TWO = sends({"data": [{"id": "one"}, {"id": "two"}]})
UNUSABLE = {
    "a wrong name": Unusable("has no model 'm' (it lists 'one', 'two'); correct --{name}-model", TWO),
    "no name": Unusable(
        "lists 'one', 'two' and not one model; choose it with --{name}-model", TWO, named=False
    ),
    "no name at no server": Unusable(NO_SERVER, fails(404), named=False),
    "a wrong key": Unusable("refuses the API key (401); set the right one in {key}", fails(401, "canary-5")),
    "a key for lists alone": Unusable(
        "refuses the API key (403); set the right one in {key}", answer=fails(403)
    ),
    "a web page": Unusable(NO_SERVER, sends(b"<html>"), sends(b"<html>")),
    "no chat": Unusable(NO_SERVER, answer=fails(404)),
    "another API": Unusable(NO_SERVER, answer=sends({"answer": "x"})),
    "a request that it does not take": Unusable(WITHOUT, answer=fails(400, "no system messages")),
    "one that always fails": Unusable("fails (500: no); check that server", answer=fails(500)),
    "one that is always busy": Unusable(WITHOUT, answer=fails(429)),
}


@pytest.mark.parametrize("case", UNUSABLE)
@pytest.mark.parametrize("name", ["local", "strong"])
def test_a_server_that_cannot_be_used_is_told_before_the_port_is_opened(
    calibsft: Command, tmp_path: Path, local: Scripted, strong: Scripted, name: str, case: str
) -> None:
    unusable, server = UNUSABLE[case], {"local": local, "strong": strong}[name]
    server.models = unusable.models or sends({"data": [{"id": "m"}]})
    server.answer = lambda asked: unusable.answer or says("")
    named = [f"--{name}-model", "m"] if unusable.named else []
    servers = ["--local", local.url, "--strong", strong.url, *named]
    told = one_sentence(
        calibsft("serve", "--policy", policy_file(tmp_path), *servers, "--port", 0, "--retries", 1)
    )
    assert unusable.why.format(name=name, key=KEY[name]) in told and server.url in told
    assert f"the {name} model's server" in told or f"correct --{name}" in told
    assert SECRET not in told and "canary" not in told


def test_nobody_there_is_told_at_once(calibsft: Command, policy: Path) -> None:
    with nobody() as url:
        told = one_sentence(calibsft("serve", "--policy", policy, "--local", url, "--port", 0))
    assert f"{url} cannot be reached; start its server or correct --local" in told


def test_a_server_that_does_not_answer_is_told(calibsft: Command, policy: Path, local: Scripted) -> None:
    local.answer = lambda asked: Sent(raw=b"") if asked.hung_up() else says("")
    options = ("--local", local.url, "--timeout", 0.3, "--retries", 0, "--port", 0)
    told = one_sentence(calibsft("serve", "--policy", policy, *options))
    assert "took more than 0.3 seconds" in told and WITHOUT in told


def test_the_check_asks_each_server_as_it_will_be_asked(
    tmp_path: Path, local: Scripted, strong: Scripted
) -> None:
    sampling = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 700, "stop": ["END"]}
    template = {"enable_thinking": True}
    rules = policy_file(tmp_path, sampling=sampling, template=template)

    def picky(asked: Asked) -> Sent:
        return fails(400) if "max_tokens" in asked.body else chats("x")(asked)

    strong.answer = picky
    with gateway(rules, local.url, strong.url, check=True) as running:
        assert [one.path for one in local.asked] == ["/v1/models", "/v1/chat/completions"]
        assert local.bodies[0] == {
            "model": "scripted",
            "messages": messages("1+1=", get_format("probability")),
            "chat_template_kwargs": template,
            **sampling,
            "max_tokens": TOKENS,
        }
        fields = ["max_tokens", "max_completion_tokens"]
        assert [{field: body.get(field) for field in fields} for body in strong.bodies] == [
            {"max_tokens": TOKENS, "max_completion_tokens": None},
            {"max_tokens": None, "max_completion_tokens": TOKENS},
        ]
        assert ask(running).status_code == 200
    assert [one.path for one in local.asked] == ["/v1/models", *["/v1/chat/completions"] * 2]


def test_a_server_that_is_busy_for_a_moment_is_waited_for(tmp_path: Path, local: Scripted) -> None:
    rules = policy_file(tmp_path, otherwise="abstain")
    local.answer = one_after_another(fails(503), says(confident("0.95")))
    with gateway(rules, local.url, check=True) as running:
        assert ask(running).status_code == 200


def test_a_server_that_lists_no_models_is_believed_to_have_the_one_that_is_named(
    tmp_path: Path, local: Scripted
) -> None:
    local.models = fails(404)
    rules = policy_file(tmp_path, otherwise="abstain")
    with gateway(rules, local.url, check=True, local_model="m") as running:
        assert ask(running).status_code == 200
    assert [body["model"] for body in local.bodies] == ["m", "m"]


def test_without_the_check_nothing_is_asked(policy: Path, local: Scripted) -> None:
    with gateway(policy, local.url, local_model="m"):
        assert not local.asked


def test_more_places_than_files_are_refused(calibsft: Command, policy: Path) -> None:
    told = one_sentence(calibsft("serve", "--policy", policy, "--local", LOCAL, "--concurrency", 10**9))
    assert "more open files than the system allows" in told and "--concurrency" in told


# A running one


@pytest.fixture
def local() -> Iterator[Scripted]:
    with scripted_server(lambda asked: says(confident("0.95"))) as found:
        yield found


@pytest.fixture
def strong() -> Iterator[Scripted]:
    with scripted_server() as found:
        yield found


def ask(running: Running, **fields: Any) -> httpx2.Response:
    body = {"model": running.model, "messages": [{"role": "user", "content": "x"}], **fields}
    return httpx2.post(f"{running.url}/chat/completions", json=body, trust_env=False, timeout=PATIENCE)


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_first_line_says_policy_model_and_address_and_a_free_port_is_taken(
    policy: Path, local: Scripted
) -> None:
    with gateway(policy, local.url, name="na\x1bme") as running:
        first = running.said().splitlines()[0]
        health = httpx2.get(running.url.removesuffix("/v1") + "/healthz", trust_env=False).json()
        assert first == f"policy {health['policy']}, model 'na me': {running.url}"
        assert running.url.startswith("http://127.0.0.1:") and not running.url.endswith(":0/v1")
        running.terminate()
        running.ended()
        assert "Traceback" not in running.said()


def test_the_common_key_never_goes_to_the_local_model(
    tmp_path: Path, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")
    keys = {"OPENAI_API_KEY": SECRET}
    with gateway(policy_file(tmp_path), local.url, strong.url, environment=keys) as running:
        assert ask(running).status_code == 200
        assert SECRET not in running.said()
    assert [one.path for one in local.asked] == ["/v1/models", "/v1/chat/completions"]
    assert all("authorization" not in one.headers for one in local.asked)
    assert {one.headers["authorization"] for one in strong.asked} == {f"Bearer {SECRET}"}


def test_a_key_of_its_own_goes_before_the_common_one(
    tmp_path: Path, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")
    keys = {
        "OPENAI_API_KEY": "common",
        "CALIBSFT_STRONG_API_KEY": f" {SECRET} ",
        "CALIBSFT_LOCAL_API_KEY": "l",
    }
    proxy = {"http_proxy": strong.url.removesuffix("/v1"), "NO_PROXY": local.url.split("/")[2].split(":")[0]}
    # The strong model is known to its proxy alone, which is all that the environment says about the way to it.
    with gateway(
        policy_file(tmp_path),
        local.url,
        "http://strong.invalid/v1",
        strong_model="s",
        environment=keys | proxy,
    ) as running:
        assert ask(running).status_code == 200
    assert {one.headers["authorization"] for one in local.asked} == {"Bearer l"}
    (asked,) = strong.asked
    assert asked.path == "http://strong.invalid/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_after_the_requests_under_way_are_answered(
    tmp_path: Path, local: Scripted, strong: Scripted, how: signal.Signals
) -> None:
    release, streaming = threading.Event(), threading.Event()

    def held(asked: Asked) -> Sent:
        if asked.body["messages"][-1]["content"] != "\n\nPROBLEM: stream\n\n":
            release.wait(PATIENCE)
            return says(confident("0.95"))
        return says("malformed")

    def pieces() -> Iterator[bytes]:
        yield event(chunk("first"))
        streaming.set()
        release.wait(PATIENCE)
        yield event(chunk("last", "stop")) + event("[DONE]")

    local.answer, strong.answer = held, lambda asked: Sent(200, pieces(), EVENTS)
    with gateway(policy_file(tmp_path), local.url, strong.url) as running, ThreadPoolExecutor(2) as pool:
        try:
            whole = pool.submit(ask, running)
            streamed = pool.submit(
                ask, running, stream=True, messages=[{"role": "user", "content": "stream"}]
            )
            assert streaming.wait(PATIENCE)
            until(lambda: len(local.chats) == 2)
            running.process.send_signal(how)
            until(lambda: refuses(running) and "Waiting for connections to close" in running.said())
        finally:
            release.set()
        assert whole.result().json()["calibsft"]["decision"] == "answered"
        assert streamed.result().text.endswith("data: [DONE]\n\n") and "last" in streamed.result().text
        code = running.ended()
        log = running.said()
    assert code == {signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 0}[how]
    assert "Traceback" not in log and "Unclosed" not in log


def refuses(running: Running) -> bool:
    """Whether nobody can connect any more."""
    host, _, port = running.url.removeprefix("http://").removesuffix("/v1").partition(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False
