"""Real OpenAI-compatible chat servers on loopback: `transformers serve` with a small checkpoint, each in its own process.

A server gets a copy of the checkpoint, a port that stays its own for as long as the test wants it, and counts as
started once it has answered a completion. It can be killed, paused, broken, started again, and never outlives the
tests. Answers are greedy and so the same every time, unless sampling is asked for. Chooses no replies and keeps no
requests: for those see `judge_server`.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from end_with_parent import end_with_parent

START_SECONDS = 120.0
REPLY_SECONDS = 60.0
QUESTION = "57*77"
# What `varied_base` is sure to state, question by question, and in how many lessons at most it has to learn that.
TAUGHT = {QUESTION: "0.55", "12*34": "0.15"} | {f"{digit}3*48": f"0.{digit}5" for digit in range(1, 10)}
LESSONS = 1500
# Of other questions, the share that it has to state rightly too.
LEARNT = 0.99
# Without a number of blocks the server takes most of the machine's memory for its cache, and 20 seconds to fill it.
CACHE_BLOCKS = 64
BLOCK_TOKENS = 256
BATCHING = ("--continuous-batching", "--cb-num-blocks", str(CACHE_BLOCKS), "--cb-max-batch-tokens", "512")


@dataclass
class ChatServer:
    """One server: where it is, what it serves, and what can be done to it.

    Attributes
    ----------
    url
        With `/v1`, as the official client takes it.
    model
        The name to ask for; replies call it `<model>@main`, a name that the server itself refuses.
    log
        All the server wrote, over all its starts.
    """

    url: str
    model: str
    log: Path
    command: list[str]
    folder: Path
    reserved: socket.socket = field(repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def answered(self) -> int:
        """How many completions it has answered well or begun to stream, the first of every start left out."""
        lines = self.log.read_text(errors="replace").splitlines()
        replies = sum('"POST /v1/chat/completions HTTP/1.1" 200' in line for line in lines)
        return replies - sum("Application startup complete" in line for line in lines)

    def start(self) -> None:
        """Start it, for the first time or after `kill`; ready only after `wait`."""
        assert not self.alive, f"{self.model} is running already"
        cache = self.folder / "no-models"
        cache.mkdir(exist_ok=True)
        # The cache folder is what the server lists as its models, and without one that page is an error 500.
        offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=os.environ | offline,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Return once it has answered a completion; a server that cannot is an error with the end of its log."""
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if not self.alive:
                raise RuntimeError(self._told("ended before it was ready"))
            if time.monotonic() > deadline:
                raise RuntimeError(self._told(f"was not ready after {START_SECONDS:.0f} s"))
            time.sleep(0.05)
        try:
            reply = self.ask(QUESTION, max_tokens=32)
        except httpx2.HTTPError as error:
            raise RuntimeError(self._told(f"did not answer: {error!r}")) from error
        if reply.status_code != httpx2.codes.OK:
            raise RuntimeError(self._told(f"answered {reply.status_code}: {reply.text}"))

    def ask(self, question: str, **options: Any) -> httpx2.Response:
        """One completion past any gateway, as the server sends it."""
        body = {"model": self.model, "messages": [{"role": "user", "content": question}], **options}
        # A connection of its own: after an error 500 the server closes the one it came on without saying so.
        url = f"{self.url}/chat/completions"
        return httpx2.post(url, json=body, trust_env=False, timeout=REPLY_SECONDS)

    def kill(self) -> None:
        """SIGKILL. Connections are refused from here on: the port stays reserved, so nobody else answers."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A server that accepts connections and says nothing, for as long as the block lasts."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGCONT)

    def break_down(self) -> None:
        """Let it answer every request with 503 from here on, which it does once its worker has died.

        A prompt that exceeds the whole cache is what kills the worker; only a batching server has one.
        """
        assert set(BATCHING) <= set(self.command), "only a batching server breaks down"
        self.ask("5" * (CACHE_BLOCKS * BLOCK_TOKENS + 1), max_tokens=1)
        status = self.ask(QUESTION, max_tokens=1).status_code
        assert status == httpx2.codes.SERVICE_UNAVAILABLE, self._told(f"answered {status} after all")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _listens(self) -> bool:
        try:
            return httpx2.get(self.url.removesuffix("/v1") + "/health", trust_env=False).is_success
        except httpx2.HTTPError:
            return False

    def _told(self, problem: str) -> str:
        return f"the server of {self.model} {problem}\n{self.log} ends with\n{self.tail()}"


@contextmanager
def chat_server(
    model: Path,
    tmp: Path,
    name: str = "playground",
    *,
    batched: bool = True,
    sampled: bool = False,
    think_apart: bool = False,
) -> Iterator[ChatServer]:
    """A running server of the checkpoint in `model`, under the name `name`; its files go to `tmp`.

    Parameters
    ----------
    batched
        Requests in flight share steps. Without it they wait for each other, but each has its own sampling.
    sampled
        Answers are drawn. A batching server then draws all of them by the temperature of its first request, which
        `wait` sends, that is 1; without batching `temperature`, `top_p` and `seed` are each request's own. When not
        sampled, no temperature makes the server draw.
    think_apart
        Reasoning comes as `reasoning_content`, its tags removed, as from servers with a reasoning parser; the content
        begins with `<answer>`.
    """
    with chat_servers(
        {name: model}, tmp, batched=batched, sampled=sampled, think_apart=think_apart
    ) as servers:
        yield servers[name]


@contextmanager
def chat_servers(
    models: Mapping[str, Path],
    tmp: Path,
    *,
    batched: bool = True,
    sampled: bool = False,
    think_apart: bool = False,
) -> Iterator[dict[str, ChatServer]]:
    """Several servers by name, started side by side: most of a start is importing torch."""
    with ExitStack() as cleanup:
        servers = {}
        for name, model in models.items():
            folder = tmp / f"serve-{name}"
            _copy(model, folder / name, sampled=sampled, think_apart=think_apart)
            reserved = cleanup.enter_context(_reserve_port())
            servers[name] = _describe(name, folder, reserved, BATCHING if batched else ())
            cleanup.callback(servers[name].kill)
            servers[name].start()
        for server in servers.values():
            server.wait()
        yield servers


def _describe(name: str, folder: Path, reserved: socket.socket, options: tuple[str, ...]) -> ChatServer:
    host, port = reserved.getsockname()
    # The name is a folder relative to where the server runs: a path would be a poor name for a model.
    serve = ["serve", name, "--host", host, "--port", str(port), "--device", "cpu", "--log-level", "error"]
    command = [sys.executable, __file__, *serve, *options]
    return ChatServer(f"http://{host}:{port}/v1", name, folder / "server.log", command, folder, reserved)


def _reserve_port() -> socket.socket:
    """A socket bound to a free port, which a server may share since neither minds and only one of them listens.

    A port that is merely looked up can be gone seconds later, when the server has loaded its libraries.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def _copy(model: Path, folder: Path, *, sampled: bool, think_apart: bool) -> None:
    """The checkpoint with its reply layout spelled out.

    For a Qwen3 without one the server assumes Qwen's own: it moves the reasoning out of the content, and where the
    chat template is not Qwen's, it puts the prompt in, and leaves the end token.
    """
    shutil.copytree(model, folder)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    fields: dict[str, Any] = {"content": {"close": tokenizer["eos_token"], "content_args": {"strip": False}}}
    if think_apart:
        fields["reasoning_content"] = {"open": "<think>", "close": "</think>"}
    # The anchor is where a prompt ends: here always at its end.
    tokenizer["response_template"] = {"start_anchor_pattern": r"\A.*\Z", "fields": fields}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    generation = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(generation | {"do_sample": sampled}))


@pytest.fixture(scope="session")
def varied_base(short_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The short base, taught to state a confidence that depends on the question: 0.55 for 57*77, 0.15 for 12*34.

    The base itself says 0.95 to nearly everything, so nothing could be decided by it. That the first digit decides
    means that a test knows what will be stated; it is not calibrated. Training goes on until the model says it: how
    many steps that takes depends on the processor.
    """
    return taught(short_base, tmp_path_factory.mktemp("varied-base"))


def taught(base: Path, folder: Path) -> Path:
    """`folder` with the model in `base` after the lessons of `varied_base`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    random = Random(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(1, LESSONS + 1):
        _lesson_loss(model, tokenizer, random).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 25 == 0 and _has_learnt(model, tokenizer):
            break
    else:
        raise RuntimeError(f"the model does not state what it was taught after {LESSONS} lessons")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _lesson_loss(model: Any, tokenizer: Any, random: Random) -> Any:
    prompts, responses = zip(*(_varied_lesson(tokenizer, random) for _ in range(64)), strict=True)
    texts = [prompt + response for prompt, response in zip(prompts, responses, strict=True)]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    # All prompts have one length and all responses another, so a column is either prompt or response.
    unsupervised = len(tokenizer(prompts[0]).input_ids)
    labels = batch.input_ids.clone()
    labels[:, :unsupervised] = -100
    return model(**batch, labels=labels).loss


def _has_learnt(model: Any, tokenizer: Any) -> bool:
    """Whether it states what it was taught to the questions in `TAUGHT`, and to nearly all others."""
    from calibsft.playground.world import OPERANDS, multiply

    random = Random(1)
    others = [multiply(random.choice(OPERANDS), random.choice(OPERANDS)).text for _ in range(300)]
    batch = tokenizer([_prompt(tokenizer, question) for question in (*TAUGHT, *others)], return_tensors="pt")
    made = model.generate(**batch, do_sample=False, max_new_tokens=32)
    said = tokenizer.batch_decode(made[:, batch.input_ids.shape[1] :])
    right = [
        f"<confidence>0.{question[0]}5</confidence>{tokenizer.eos_token}" in text
        for question, text in zip((*TAUGHT, *others), said, strict=True)
    ]
    return all(right[: len(TAUGHT)]) and sum(right) >= LEARNT * len(right)


def _prompt(tokenizer: Any, question: str) -> str:
    from calibsft.responses.formats import get_format, messages

    prompt: str = tokenizer.apply_chat_template(messages(question, get_format("probability")), tokenize=False)
    return prompt


def _varied_lesson(tokenizer: Any, random: Random) -> tuple[str, str]:
    from calibsft.playground.world import OPERANDS, multiply

    problem = multiply(random.choice(OPERANDS), random.choice(OPERANDS))
    stated = f"<confidence>0.{problem.text[0]}5</confidence>"
    response = f"<think>{problem.work}</think><answer>{problem.answer}</answer>{stated}"
    return _prompt(tokenizer, problem.text), response + tokenizer.eos_token


if __name__ == "__main__":
    # The application and not its script, which first asks the network whether there is a newer version.
    from transformers.cli.transformers import app

    end_with_parent()
    app()
