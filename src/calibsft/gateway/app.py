"""The gateway's HTTP side: pages, the clients' token, errors in the form of the OpenAI API.

Each question is one line of the log: status, decision, time and request id, never text of the
client or a model. A client's headers are not passed on, except its trace.
"""

import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from calibsft.gateway.exchange import EventStream, read_body, unless_gone
from calibsft.gateway.failures import Refusal
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.labels import summary
from calibsft.gateway.requests import read_request
from calibsft.gateway.strict_json import write_json
from calibsft.gateway.traces import recorder, trace_headers

log = logging.getLogger("calibsft.gateway")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
CHAT, MODELS, FEEDBACK = "/v1/chat/completions", "/v1/models", "/v1/feedback"
HEALTH, METRICS = "/healthz", "/metrics"
MISROUTED = {
    404: (f"there is no such page here; the API is {CHAT} and {MODELS}", "not_found"),
    405: ("this page has another method; use that in the allow header", "method_not_allowed"),
}
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Serving:
    """How the gateway is offered to clients.

    Attributes
    ----------
    name : the model's name for clients.
    token : the bearer token that clients must send; None if they need none.
    largest_body : the most bytes of a request.
    patience : the most seconds that a client may take to send one.
    """

    name: str
    token: str | None
    largest_body: int
    patience: float


class App(Starlette):
    """The whole gateway as an ASGI application."""

    def __init__(self, gateway: Gateway, serving: Serving) -> None:
        self._gateway, self._serving, self._trace = gateway, serving, recorder()
        self._token = None if serving.token is None else f"Bearer {serving.token}".encode()
        began = int(time.time())
        self._model = {"id": serving.name, "object": "model", "created": began, "owned_by": "calibsft"}
        super().__init__(
            routes=[
                Route(CHAT, self._guarded(self._chat), methods=["POST"]),
                Route(MODELS, self._guarded(self._models)),
                Route(f"{MODELS}/{{name:path}}", self._guarded(self._one_model)),
                Route(FEEDBACK, self._guarded(self._feedback), methods=["POST"]),
                Route(HEALTH, self._health),  # monitoring needs no token
                Route(METRICS, self._metrics),
            ],
            exception_handlers={
                Refusal: _refused,
                HTTPException: _misrouted,
                ClientDisconnect: _gone,
                Exception: _unexpected,
            },
            lifespan=self._until_closed,
        )
        self.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply with a request id, and count and log it."""
        began, request_id = time.perf_counter(), uuid4().hex
        scope.setdefault("state", {})["id"] = request_id

        async def sends(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                if scope["method"] == "POST":
                    self._count_and_log(message["status"], headers, time.perf_counter() - began)
            await send(message)

        try:
            await super().__call__(scope, receive, sends)
        except Exception as error:
            # The text of an unexpected error may contain what a client sent, so it is not logged.
            log.error("unexpected %s, request %s", type(error).__name__, request_id)

    def _count_and_log(self, status: int, headers: Mapping[str, str], seconds: float) -> None:
        self._gateway.meters.requests.labels(status).inc()
        self._gateway.meters.seconds.observe(seconds)
        decision = headers.get("x-calibsft-decision")
        outcome_text = f" {decision} ({headers['x-calibsft-reason']})" if decision else ""
        log.info("%d%s %.0f ms %s", status, outcome_text, 1000 * seconds, headers["x-request-id"])

    @asynccontextmanager
    async def _until_closed(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._gateway.close()

    def _guarded(self, page: Handler) -> Handler:
        """A page that only clients with the token get."""

        async def checked(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if self._token is not None and not hmac.compare_digest(given, self._token):
                message = "the bearer token is missing or wrong; set the client's API key"
                raise Refusal(401, message, "invalid_api_key")
            return await page(request)

        return checked

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, self._serving.largest_body, self._serving.patience)
        asked = read_request(body, self._serving.name)
        trace = self._trace(trace_headers(request.headers))
        work = self._gateway.reply(asked, f"chatcmpl-{request.state.id}", trace)
        reply = await unless_gone(request.receive, work)
        headers = reply.decision.headers()
        if not isinstance(reply.content, dict):
            return EventStream(reply.content, headers, reply.held)
        with reply.held:
            return _json(reply.content, headers=headers)

    async def _models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._model]})

    async def _one_model(self, request: Request) -> Response:
        if request.path_params["name"] != self._serving.name:
            raise Refusal(404, f"there is no such model here; {MODELS} lists the one", "model_not_found")
        return _json(self._model)

    async def _feedback(self, request: Request) -> Response:
        labels = self._gateway.labels
        if labels is None:
            raise Refusal(404, "labels are not taken here; start the gateway with --labels FILE", "not_found")
        body = await read_body(request, self._serving.largest_body, self._serving.patience)
        return _json(await labels.count(body))

    async def _health(self, request: Request) -> Response:
        policy, labels = self._gateway.policy, self._gateway.labels
        watch = None if labels is None else summary(labels.state)
        return _json({"status": "ok", "policy": policy.id, "promise": policy.promise, "watch": watch})

    async def _metrics(self, request: Request) -> Response:
        return Response(self._gateway.meters.page(), media_type=PROMETHEUS)


async def _refused(request: Request, refusal: Any) -> Response:
    return _json(refusal.body(), refusal.status, refusal.headers)


async def _misrouted(request: Request, error: Any) -> Response:
    return await _refused(request, Refusal(error.status_code, *MISROUTED[error.status_code], error.headers))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _unexpected(request: Request, error: Exception) -> Response:
    return await _refused(request, Refusal(500, "the gateway failed; see its log", "internal_error"))


def _json(content: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(write_json(content), status, headers, "application/json")
