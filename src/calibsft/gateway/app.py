"""The gateway's HTTP side: routes, limits on what clients send, their token, errors in the API's own form.

Every line of its log is about one request: status, decision, time and an id of its own, never a text of the client or a
model. Headers of the client go no further.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from calibsft.gateway.failures import Refusal
from calibsft.gateway.gateway import Gateway, Reply
from calibsft.gateway.requests import read_request
from calibsft.gateway.strict_json import write_json

log = logging.getLogger("calibsft.gateway")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
BODY_SECONDS = 30.0

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Serving:
    """How the gateway is offered to clients.

    Attributes
    ----------
    name : of the model that it serves.
    token : that clients must send as a bearer token; None: they need none.
    largest_body : bytes that a request may have.
    """

    name: str
    token: str | None
    largest_body: int


def build_app(gateway: Gateway, serving: Serving) -> Starlette:
    """The whole gateway as an ASGI application."""
    began = int(time.time())
    model = {"id": serving.name, "object": "model", "created": began, "owned_by": "calibsft"}

    async def chat(request: Request) -> Response:
        body = await _body(request, serving.largest_body)
        asked = read_request(body, serving.name)
        reply = await _unless_gone(request, gateway.reply(asked, f"chatcmpl-{request.state.id}"))
        request.state.decision = reply.decision
        return await _response(reply)

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        if request.path_params["name"] != serving.name:
            raise Refusal(404, "there is no such model here; /v1/models lists the one", "model_not_found")
        return JSONResponse(model)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "policy": gateway.policy.id})

    async def metrics(request: Request) -> Response:
        return Response(gateway.meters.page(), media_type=PROMETHEUS)

    def route(path: str, handler: Handler, method: str = "GET", protected: bool = True) -> Route:
        token = serving.token if protected else None
        return Route(path, _told(handler, gateway, token), methods=[method])

    @asynccontextmanager
    async def closing(app: Starlette) -> AsyncIterator[None]:
        yield
        await gateway.close()

    app = Starlette(
        routes=[
            route("/v1/chat/completions", chat, "POST"),
            route("/v1/models", models),
            route("/v1/models/{name:path}", one_model),
            route("/healthz", health, protected=False),
            route("/metrics", metrics, protected=False),
        ],
        exception_handlers={HTTPException: _no_such_page},
        lifespan=closing,
    )
    # A redirect would name whatever host the client claims to have asked.
    app.router.redirect_slashes = False
    return app


class _Json(JSONResponse):
    """Also for texts of models, which may hold half characters."""

    def render(self, content: Any) -> bytes:
        return write_json(content)


class _Held(StreamingResponse):
    """A stream that gives back what it holds, however it ends."""

    def __init__(self, reply: Reply, headers: dict[str, str]) -> None:
        assert reply.chunks is not None
        super().__init__(reply.chunks, headers=headers, media_type="text/event-stream")
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ClientDisconnect:
            log.info("client gone before the end of a stream")
        finally:
            await self._reply.held.aclose()


async def _response(reply: Reply) -> Response:
    headers = reply.decision.headers()
    if reply.chunks is not None:
        return _Held(reply, {**headers, "cache-control": "no-cache"})
    async with reply.held:
        return _Json(reply.completion, headers=headers)


def _told(handler: Handler, gateway: Gateway, token: str | None) -> Handler:
    """`handler` for clients with the token, with its failures as errors of the API, counted and logged."""

    async def told(request: Request) -> Response:
        began = time.perf_counter()
        request.state.id, request.state.decision = uuid4().hex, None
        try:
            _admit(request, token)
            response = await handler(request)
        except Refusal as refusal:
            response = _Json(refusal.body(), refusal.status, headers=refusal.headers)
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception as error:
            # The text of an unforeseen error may hold what a client sent.
            log.error("unexpected %s, request %s", type(error).__name__, request.state.id)
            failure = Refusal(500, "the gateway failed; see its log", "internal_error")
            response = JSONResponse(failure.body(), failure.status)
        response.headers["x-request-id"] = request.state.id
        seconds = time.perf_counter() - began
        if request.method == "POST":
            gateway.meters.requests.labels(response.status_code).inc()
            gateway.meters.seconds.observe(seconds)
            _log(request, response.status_code, seconds)
        return response

    return told


def _log(request: Request, status: int, seconds: float) -> None:
    decision = request.state.decision
    said = "" if decision is None else f" {decision.outcome} ({decision.cause})"
    log.info("%d%s %.0f ms %s", status, said, 1000 * seconds, request.state.id)


def _admit(request: Request, token: str | None) -> None:
    given = request.headers.get("authorization", "").encode()
    if token is not None and not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise Refusal(
            401, "the bearer token is missing or wrong; set the client's API key", "invalid_api_key"
        )


async def _body(request: Request, largest: int) -> bytes:
    """What the client sends, refused as soon as it is known to be too much."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "send the body as content-type application/json", "unsupported_media_type")
    too_large = Refusal(413, f"the body has more than {largest} bytes; send less", "too_large")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > largest:
        raise too_large
    parts, received = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                received += len(part)
                if received > largest:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise Refusal(408, "the body did not come in time; send it again", "timeout") from None
    return b"".join(parts)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is given up when the client goes away: nobody would read it."""
    asked = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ClientDisconnect
        return asked.result()
    finally:
        for task in (asked, gone):
            task.cancel()


async def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message, code = "there is no such page here; the API is /v1/chat/completions and /v1/models", "not_found"
    if error.status_code == 405:
        message, code = "this page has another method; use that in the allow header", "method_not_allowed"
    return JSONResponse(
        Refusal(error.status_code, message, code).body(), error.status_code, headers=error.headers
    )
