"""The gateway's HTTP side: pages, the clients' token, errors in the form of the OpenAI API.

Each request is one line of the log: status, decision, time and request id, never text of the client or a model. A client's
headers are not passed on.
"""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from calibsft.gateway.exchange import EventStream, read_body, unless_gone
from calibsft.gateway.failures import Refusal
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.requests import read_request
from calibsft.gateway.strict_json import write_json

log = logging.getLogger("calibsft.gateway")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
CHAT, MODELS, HEALTH, METRICS = "/v1/chat/completions", "/v1/models", "/healthz", "/metrics"
# Monitoring needs no token.
OPEN_PAGES = frozenset({HEALTH, METRICS})
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Serving:
    """How the gateway is offered to clients.

    Attributes
    ----------
    name : the model's name for clients.
    token : the bearer token that clients must send; None if they need none.
    largest_body : the most bytes of a request.
    """

    name: str
    token: str | None
    largest_body: int


class App:
    """The whole gateway as an ASGI application."""

    def __init__(self, gateway: Gateway, serving: Serving) -> None:
        self._gateway, self._serving = gateway, serving
        self._token = None if serving.token is None else f"Bearer {serving.token}".encode()
        began = int(time.time())
        self._model = {"id": serving.name, "object": "model", "created": began, "owned_by": "calibsft"}
        self._pages: dict[str, tuple[str, Handler]] = {
            CHAT: ("POST", self._chat),
            MODELS: ("GET", self._models),
            HEALTH: ("GET", self._health),
            METRICS: ("GET", self._metrics),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(Request(scope, receive), send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._gateway.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, request: Request, send: Send) -> None:
        """Send a page, or an error in the form of the API; count and log it."""
        began, request.state.id = time.perf_counter(), uuid4().hex
        response = await self._response(request)
        response.headers["x-request-id"] = request.state.id
        if request.method == "POST":
            self._count_and_log(response, time.perf_counter() - began)
        try:
            await response(request.scope, request.receive, send)
        except ClientDisconnect:
            log.info("client gone before the end of a stream")
        except Exception as error:
            log.error("unexpected %s in a stream, request %s", type(error).__name__, request.state.id)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._page(request)
        except Refusal as refusal:
            return _json(refusal.body(), refusal.status, refusal.headers)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            # The text of an unexpected error may contain what a client sent, so it is not logged.
            log.error("unexpected %s, request %s", type(error).__name__, request.state.id)
            return _json(Refusal(500, "the gateway failed; see its log", "internal_error").body(), 500)

    def _count_and_log(self, response: Response, seconds: float) -> None:
        status, headers = response.status_code, response.headers
        self._gateway.meters.requests.labels(status).inc()
        self._gateway.meters.seconds.observe(seconds)
        decision = headers.get("x-calibsft-decision")
        said = f" {decision} ({headers['x-calibsft-reason']})" if decision else ""
        log.info("%d%s %.0f ms %s", status, said, 1000 * seconds, headers["x-request-id"])

    async def _page(self, request: Request) -> Response:
        path = request.scope["path"]
        method, page = self._page_at(path)
        if path not in OPEN_PAGES:
            self._check_token(request)
        if request.method != method and (request.method, method) != ("HEAD", "GET"):
            message = "this page has another method; use that in the allow header"
            raise Refusal(405, message, "method_not_allowed", {"allow": method})
        return await page(request)

    def _page_at(self, path: str) -> tuple[str, Handler]:
        """The method and the handler of the page at `path`."""
        if path in self._pages:
            return self._pages[path]
        if path.startswith(f"{MODELS}/"):
            return "GET", self._one_model
        raise Refusal(404, f"there is no such page here; the API is {CHAT} and {MODELS}", "not_found")

    def _check_token(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if self._token is not None and not hmac.compare_digest(given, self._token):
            message = "the bearer token is missing or wrong; set the client's API key"
            raise Refusal(401, message, "invalid_api_key")

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, self._serving.largest_body)
        asked = read_request(body, self._serving.name)
        work = self._gateway.reply(asked, f"chatcmpl-{request.state.id}")
        reply = await unless_gone(request.receive, work)
        headers = reply.decision.headers()
        if not isinstance(reply.content, dict):
            return EventStream(reply.content, headers, reply.held)
        with reply.held:
            return _json(reply.content, headers=headers)

    async def _models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._model]})

    async def _one_model(self, request: Request) -> Response:
        if request.scope["path"] != f"{MODELS}/{self._serving.name}":
            raise Refusal(404, f"there is no such model here; {MODELS} lists the one", "model_not_found")
        return _json(self._model)

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "policy": self._gateway.policy.id})

    async def _metrics(self, request: Request) -> Response:
        return Response(self._gateway.meters.page(), media_type=PROMETHEUS)


def _json(content: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(write_json(content), status, headers, "application/json")
