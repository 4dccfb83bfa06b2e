"""A Hub on loopback that takes uploads: the real library talks to it, and the test reads what arrived."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeHub:
    """What was asked for and what arrived."""

    url: str = ""
    made: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def fake_hub(token: str) -> Iterator[FakeHub]:
    """A running Hub that knows one token, and takes every file as it is."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers.get("authorization") != f"Bearer {token}":
                self._send(401, {"error": "who are you?"})
            elif self.path == "/api/repos/create":
                hub.made.append(json.loads(content))
                name = f"{hub.made[-1]['organization']}/{hub.made[-1]['name']}"
                prefix = "datasets/" if hub.made[-1].get("type") == "dataset" else ""
                self._send(200, {"url": f"{hub.url}/{prefix}{name}"})
            elif "/preupload/" in self.path:
                asked = [entry["path"] for entry in json.loads(content)["files"]]
                modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in asked]
                self._send(200, {"files": modes})
            elif "/commit/" in self.path:
                for line in map(json.loads, content.splitlines()):
                    if line["key"] == "file":
                        hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                url = hub.url + self.path.removeprefix("/api").replace("/models/", "/")
                self._send(200, {"success": True, "commitOid": "a" * 40, "commitUrl": url})
            else:  # /api/validate-yaml
                self._send(200, {})

        def do_GET(self) -> None:
            known = self.headers.get("authorization") == f"Bearer {token}"
            self._send(*((200, {}) if known or self.path == "/" else (401, {"error": "who are you?"})))

        do_HEAD = do_GET

        def _send(self, status: int, body: dict[str, Any]) -> None:
            said = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
