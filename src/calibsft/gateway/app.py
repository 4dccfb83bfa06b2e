"""The gateway's HTTP side: pages, the clients' token, errors in the form of the OpenAI API.

Each request is one line of the log: status, decision, time and request id, never text of the client or a model. A client's
headers are not passed on.
"""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calibsft.gateway.deciding import Decision
from calibsft.gateway.exchange import ClientGone, Exchange, Receive, Scope, Send
from calibsft.gateway.failures import Refusal
from calibsft.gateway.gateway import Gateway, Reply
from calibsft.gateway.requests import read_request
from calibsft.gateway.strict_json import write_json

log = logging.getLogger("calibsft.gateway")
JSON, EVENTS, PROMETHEUS = (
    "application/json",
    "text/event-stream; charset=utf-8",
    "text/plain; version=0.0.4; charset=utf-8",
)
CHAT, MODELS, HEALTH, METRICS = "/v1/chat/completions", "/v1/models", "/healthz", "/metrics"
# Monitoring needs no token.
OPEN_PAGES = frozenset({HEALTH, METRICS})


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


@dataclass(frozen=True, slots=True)
class Page:
    """What is sent back: the whole content, or the stream of a reply."""

    status: int
    content: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    streamed: Reply | None = None
    decision: Decision | None = None


Handler = Callable[[Exchange], Awaitable[Page]]


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
            await self._answer(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._gateway.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, exchange: Exchange) -> None:
        """Send a page, or an error in the form of the API; count and log it."""
        began = time.perf_counter()
        try:
            page = await self._page(exchange)
        except Refusal as refusal:
            page = Page(refusal.status, write_json(refusal.body()), headers=refusal.headers)
        except ClientGone:
            page = Page(499)
        except Exception as error:
            # The text of an unexpected error may contain what a client sent, so it is not logged.
            log.error("unexpected %s, request %s", type(error).__name__, exchange.id)
            failure = Refusal(500, "the gateway failed; see its log", "internal_error")
            page = Page(failure.status, write_json(failure.body()))
        if exchange.method == "POST":
            self._count_and_log(exchange, page, time.perf_counter() - began)
        await _send(exchange, page)

    def _count_and_log(self, exchange: Exchange, page: Page, seconds: float) -> None:
        self._gateway.meters.requests.labels(page.status).inc()
        self._gateway.meters.seconds.observe(seconds)
        decision = page.decision
        said = "" if decision is None else f" {decision.outcome} ({decision.cause})"
        log.info("%d%s %.0f ms %s", page.status, said, 1000 * seconds, exchange.id)

    async def _page(self, exchange: Exchange) -> Page:
        method, page = self._page_at(exchange.path)
        if exchange.path not in OPEN_PAGES:
            self._check_token(exchange)
        if exchange.method != method and (exchange.method, method) != ("HEAD", "GET"):
            message = "this page has another method; use that in the allow header"
            raise Refusal(405, message, "method_not_allowed", {"allow": method})
        return await page(exchange)

    def _page_at(self, path: str) -> tuple[str, Handler]:
        """The method and the handler of the page at `path`."""
        if path in self._pages:
            return self._pages[path]
        if path.startswith(f"{MODELS}/"):
            return "GET", self._one_model
        raise Refusal(404, f"there is no such page here; the API is {CHAT} and {MODELS}", "not_found")

    def _check_token(self, exchange: Exchange) -> None:
        if self._token is None:
            return
        if not hmac.compare_digest(exchange.header(b"authorization").encode(), self._token):
            raise Refusal(
                401, "the bearer token is missing or wrong; set the client's API key", "invalid_api_key"
            )

    async def _chat(self, exchange: Exchange) -> Page:
        body = await exchange.body(self._serving.largest_body)
        asked = read_request(body, self._serving.name)
        reply = await exchange.unless_gone(self._gateway.reply(asked, f"chatcmpl-{exchange.id}"))
        headers = reply.decision.headers()
        if reply.chunks is not None:
            headers["cache-control"] = "no-cache"
            return Page(200, kind=EVENTS, headers=headers, streamed=reply, decision=reply.decision)
        with reply.held:
            return Page(200, write_json(reply.completion), headers=headers, decision=reply.decision)

    async def _models(self, exchange: Exchange) -> Page:
        return _json({"object": "list", "data": [self._model]})

    async def _one_model(self, exchange: Exchange) -> Page:
        if exchange.path != f"{MODELS}/{self._serving.name}":
            raise Refusal(404, f"there is no such model here; {MODELS} lists the one", "model_not_found")
        return _json(self._model)

    async def _health(self, exchange: Exchange) -> Page:
        return _json({"status": "ok", "policy": self._gateway.policy.id})

    async def _metrics(self, exchange: Exchange) -> Page:
        return Page(200, self._gateway.meters.page(), PROMETHEUS)


def _json(content: dict[str, Any]) -> Page:
    return Page(200, write_json(content))


async def _send(exchange: Exchange, page: Page) -> None:
    headers = {"content-type": page.kind, **page.headers, "x-request-id": exchange.id}
    if page.streamed is None:
        await exchange.reply(page.status, page.content, headers)
        return
    assert page.streamed.chunks is not None
    with page.streamed.held:
        try:
            await exchange.stream(page.streamed.chunks, headers)
        except ClientGone:
            log.info("client gone before the end of a stream")
        except Exception as error:
            log.error("unexpected %s in a stream, request %s", type(error).__name__, exchange.id)
