"""A server of a policy for tests, with the requests of vLLM that RL makes, and processes of it.

It loads the weights that it is sent and samples from them with the transformers engine: the real path but for vLLM itself,
which `tests/contract` runs. `python policy_process.py PORT CHECKPOINT LOG` serves; the log has one line per event.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from server_process import ServerProcess


class Policy:
    """The model that is served, and its version."""

    def __init__(self, checkpoint: str, log: Path) -> None:
        from calibsft.engines import default_engine, load_engine

        self._load = lambda folder: load_engine(default_engine(), folder, "cpu", "float32")
        self._engine, self._log, self._lock = self._load(checkpoint), log, threading.Lock()
        self._tokenizer, self.version = self._engine.tokenizer, "default"

    def note(self, **event: Any) -> None:
        with self._log.open("a") as out:
            out.write(json.dumps(event) + "\n")

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a request; None for one that it does not know."""
        path = path.partition("?")[0]
        if path == "/v1/models":
            return {"data": [{"id": "policy", "max_model_len": self._engine.context}]}
        if path == "/tokenize":
            return {"tokens": self._tokenizer(body["prompt"], verbose=False)["input_ids"]}
        if path == "/weight_info":
            return {"weight_version": self.version}
        if path == "/update_weight_version":
            self.version = body["new_version"]
            self.note(version=self.version)
        if path == "/collective_rpc":
            return {"results": [getattr(self, body["method"])(**body.get("kwargs", {}))]}
        if path == "/inference/v1/generate":
            with self._lock:
                return self._sampled(body)
        return {} if path in ("/pause", "/resume", "/reset_prefix_cache", "/update_weight_version") else None

    def policy_shapes(self) -> dict[str, Any]:
        config = self._engine.model.config
        return {name: getattr(config, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}

    def policy_load(self, folder: str) -> dict[str, str]:
        from calibsft.models import load_model

        with self._lock:
            self._engine.update_weights(load_model(folder, "cpu", "float32").eval())
        return {"loaded": folder}

    def _sampled(self, body: dict[str, Any]) -> dict[str, Any]:
        from calibsft.engines.engine import Request, Sampling

        params = body["sampling_params"]
        sampling = Sampling(
            params["temperature"], params["top_p"], params["max_tokens"], tuple(params["stop"])
        )
        ((found,),) = self._engine.generate([Request(tuple(body["token_ids"]), (params["seed"],))], sampling)
        contents = [
            {"token_id": i, "logprob": float(logprob)}
            for i, logprob in zip(found.token_ids, found.logprobs, strict=True)
        ]
        versions = [{"version": self.version, "start": 0, "end": len(found.token_ids)}]
        choice = {
            "token_ids": list(found.token_ids), "logprobs": {"content": contents}, "weight_versions": versions,
            "finish_reason": found.finish_reason,
        }  # fmt: skip
        self.note(sampled=self.version)
        return {"choices": [choice], "usage": {"completion_tokens": len(found.token_ids)}}


def handler(policy: Policy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            reply = policy.answer(self.path, json.loads(self.rfile.read(length) or b"{}"))
            content = json.dumps(reply or {"error": "not found"}).encode()
            self.send_response(404 if reply is None else 200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _reply

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


class PolicyProcess(ServerProcess):
    """A process of this server."""

    def __init__(self, checkpoint: Path, log: Path) -> None:
        super().__init__(__file__, checkpoint, log)
        self.url, self.log = f"http://127.0.0.1:{self.port}", log

    def events(self, kind: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.is_file() else []
        return [event[kind] for event in map(json.loads, lines) if kind in event]


if __name__ == "__main__":
    policy = Policy(sys.argv[2], Path(sys.argv[3]))
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler(policy)).serve_forever()
