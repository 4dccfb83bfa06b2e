"""An endpoint on loopback for tests of the judge and of estimators: real sockets, chosen replies, and what it was sent."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from calibsft.judge import Judge, JudgeModel
from calibsft.judge.endpoint import EndpointJudge
from calibsft.judge.yes_no import YES_NO
from calibsft.verify.grader import GradeItem
from calibsft.verify.judged import AnswerJudge

KEY = "sk-very-secret-0123456789"


def item(
    answer: str, gold: str | tuple[str, ...] = "Paris", question: str = "Capital of France?"
) -> GradeItem:
    return GradeItem("judge", gold, answer, question=question)


Answer = Callable[[dict[str, Any]], tuple[int, Any]]


@dataclass
class Server:
    """An endpoint on loopback, of chats unless `path` says otherwise, that keeps what it was sent."""

    url: str = ""
    path: str = "/v1/chat/completions"
    answer: Answer = lambda body: (200, "Yes")
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][1]["content"] for body in self.bodies]


def completion(text: str | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("CALIBSFT_JUDGE_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with found.lock:
                found.bodies.append(body)
                found.keys.append(self.headers["authorization"])
            status, reply = (404, "no such page")
            if self.path == found.path:
                status, reply = found.answer(body)
            if status == 200 and (reply is None or isinstance(reply, str)):
                reply = completion(reply)
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "text/html" if isinstance(reply, bytes) else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    found.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
    thread.start()
    yield found
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def refused(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def answer_judge(model: JudgeModel, cache: Path | None = None) -> AnswerJudge:
    return AnswerJudge(Judge(model, YES_NO, cache))


def model_at(server: Server, **options: Any) -> EndpointJudge:
    return EndpointJudge(server.url, "m", **{"retries": 0, "timeout": 10.0, **options})


def judge_at(server: Server, cache: Path | None = None, **options: Any) -> AnswerJudge:
    return answer_judge(model_at(server, **options), cache)


def says_yes_to_even_numbers(body: dict[str, Any]) -> tuple[int, Any]:
    number = body["messages"][1]["content"].split("<prediction>city ")[1].split("<")[0]
    time.sleep(int(number) % 3 / 100)  # replies overtake each other
    return 200, "Yes" if int(number) % 2 == 0 else "No"
