"""An OpenAI-compatible server on loopback that does what a test says: chosen replies, chosen faults, and what it was sent.

Faults are real ones: connections that break off, replies that never end, servers that wait. Runs no model; for those see
`chat_servers`.
"""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

HOST = "127.0.0.1"
PATIENCE = 60.0
EVENTS = "text/event-stream"
QUESTION = "What is 57*77?"
# In no question, key or answer but those that a test puts there.
THOUGHT, ANSWER = "canary-thought", "canary-answer"


@dataclass(frozen=True, eq=False)
class Asked:
    """One request as it arrived; `headers` by their names in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    connection: socket.socket

    def hung_up(self) -> bool:
        """Whether the other side gives up, which is waited for."""
        ready, _, _ = select.select([self.connection], [], [], PATIENCE)
        try:
            return bool(ready) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionError:
            return True


@dataclass(frozen=True)
class Sent:
    """One reply.

    Attributes
    ----------
    parts
        The content, sent piece by piece as they come.
    cut
        The connection is closed where the reply should go on.
    raw
        All that is sent, in place of a reply.
    """

    status: int = 200
    parts: Iterable[bytes] = ()
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    raw: bytes | None = None


Answer = Callable[[Asked], Sent]


@dataclass
class Scripted:
    """A server: where it is, what it answers, what it was asked, and how many requests at most it had at a time."""

    url: str
    answer: Answer
    models: Sent
    asked: list[Asked] = field(default_factory=list)
    most: int = 0
    now: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def chats(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == "/v1/chat/completions"]

    @property
    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.chats]

    def reset(self, answer: Answer) -> None:
        """Forget what it was asked, and answer otherwise."""
        with self.lock:
            self.asked, self.most, self.answer = [], 0, answer

    @contextmanager
    def entered(self, asked: Asked) -> Iterator[None]:
        with self.lock:
            self.asked.append(asked)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self.lock:
                self.now -= 1


@contextmanager
def scripted_server(answer: Answer | None = None, model: str = "scripted") -> Iterator[Scripted]:
    """A running server that answers chat completions by `answer` and lists one model."""
    listed = {"object": "list", "data": [{"id": model, "object": "model"}]}
    script = Scripted("", answer or (lambda asked: says(confident("0.95"))), sends(listed))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # small writes would wait for the other side's receipt

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(content) if content else None
            asked = Asked(self.command, self.path, names, body, self.connection)
            with script.entered(asked):
                try:
                    self._send(script.models if self.path == "/v1/models" else script.answer(asked))
                except OSError:  # the gateway may go away at any time
                    self.close_connection = True

        do_GET = do_POST

        def _send(self, sent: Sent) -> None:
            if sent.raw is not None:
                self.wfile.write(sent.raw)
                self.close_connection = True
                return
            self.send_response(sent.status)
            for name, value in {
                "content-type": sent.kind,
                "transfer-encoding": "chunked",
                **sent.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            for part in filter(None, sent.parts):  # an empty piece would be the end
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if sent.cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    with _running(Handler) as port:
        script.url = f"http://{HOST}:{port}/v1"
        yield script


@pytest.fixture(scope="module")
def local_server() -> Iterator[Scripted]:
    """For all tests of a file, which `reset` it."""
    with scripted_server() as found:
        yield found


@pytest.fixture(scope="module")
def strong_server() -> Iterator[Scripted]:
    with scripted_server(model="strong-model") as found:
        yield found


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    class Httpd(ThreadingHTTPServer):
        daemon_threads, block_on_close, request_queue_size = True, False, 128

        def handle_error(self, *_: object) -> None:
            pass  # connections that break are what these tests are about

    httpd = Httpd((HOST, 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield httpd.server_port
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


@contextmanager
def nobody() -> Iterator[str]:
    """The URL of a server that is not there: the port is kept, and nobody listens."""
    with socket.socket() as kept:
        kept.bind((HOST, 0))
        yield f"http://{HOST}:{kept.getsockname()[1]}/v1"


def confident(stated: str, answer: str = ANSWER, think: str = THOUGHT) -> str:
    """A response in the layout of training."""
    return f"<think>{think}</think> <answer>{answer}</answer> <confidence>{stated}</confidence>"


def completion(content: Any, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion; `message` are more fields of the message."""
    spoken = {"role": "assistant", "content": content, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "upstream-model",
        "choices": [{"index": 0, "message": spoken, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def sends(reply: Any, status: int = 200, **headers: str) -> Sent:
    """A whole reply: bytes as they are, anything else as JSON."""
    content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Sent(status, [content], headers=named)


def says(text: str) -> Sent:
    """A completion with this text."""
    return sends(completion(text))


def fails(status: int, message: str = "no", **headers: str) -> Sent:
    """An error in the API's own form."""
    return sends({"error": {"message": message, "type": "t", "code": None}}, status, **headers)


def chunk(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One piece of a stream."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-2",
        "object": "chat.completion.chunk",
        "created": 2,
        "model": "upstream-model",
        "choices": [choice],
        **more,
    }


def event(data: Any) -> bytes:
    """One server-sent event."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def streams(*events: Any, done: bool = True, cut: bool = False) -> Sent:
    """A stream of chunks, with or without its end mark."""
    return Sent(200, [*map(event, events), *([event("[DONE]")] if done else [])], EVENTS, cut=cut)


def chats(text: str) -> Answer:
    """Says `text` whole or in two pieces, as it is asked."""

    def answer(asked: Asked) -> Sent:
        if not asked.body.get("stream"):
            return says(text)
        half = len(text) // 2
        return streams(chunk(text[:half]), chunk(text[half:]), chunk(None, "stop"))

    return answer


def one_after_another(*replies: Sent) -> Answer:
    """Each reply once, the last one from then on."""
    left = list(replies)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]
