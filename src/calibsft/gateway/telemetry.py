"""OpenTelemetry: spans for questions and requests to models, and an event with the confidence.

Names are those of its conventions for generative AI. No text of a client or a model is recorded. Needs
the extra `otel`. Where spans go is up to the process, usually to `opentelemetry-instrument`.
"""

import time
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry._logs import get_logger
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from calibsft.gateway.deciding import Cause, Decision
from calibsft.gateway.failures import Refusal, UpstreamFailure
from calibsft.gateway.replies import tokens_in
from calibsft.gateway.traces import Call, Trace

SCOPE = "calibsft.gateway"
# Other propagators would also pass on what is not about the trace.
W3C = TraceContextTextMapPropagator()
USAGE = {"prompt": "gen_ai.usage.input_tokens", "completion": "gen_ai.usage.output_tokens"}
PORTS = {"http": 80, "https": 443}


def is_set_up() -> bool:
    """Whether this process records spans."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


class RecordedCall(Call):
    """A span around one request to a model; what is recorded meanwhile belongs to it."""

    def __init__(self, server: str, url: str, model: str) -> None:
        at = urlsplit(url)
        self._span = trace.get_tracer(SCOPE).start_span(
            f"chat {model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",  # whose API it is
                "gen_ai.request.model": model,
                "server.address": at.hostname or "",
                "server.port": at.port or PORTS[at.scheme],
                "calibsft.server": server,
            },
        )
        self.context = trace.set_span_in_context(self._span)
        headers: dict[str, str] = {}
        W3C.inject(headers, self.context)
        super().__init__(headers)

    def __enter__(self) -> Self:
        self._token = attach(self.context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if isinstance(error, UpstreamFailure):
            self.failed(error.kind)
        detach(self._token)
        self._span.end()

    def replied(self, reply: dict[str, Any]) -> None:
        for kind, tokens in tokens_in(reply).items():
            self._span.set_attribute(USAGE[kind], tokens)

    def failed(self, kind: str) -> None:
        _mark(self._span, kind)


class RecordedTrace(Trace):
    """A span around one question of a client."""

    _local: Context | None = None

    def __enter__(self) -> Self:
        # Inside another library's span for the same request, if there is one.
        outer = trace.get_current_span().get_span_context().is_valid
        parent = get_current() if outer else W3C.extract(self.headers)
        kind = SpanKind.INTERNAL if outer else SpanKind.SERVER
        self._span = trace.get_tracer(SCOPE).start_span("calibsft question", parent, kind)
        self._token = attach(trace.set_span_in_context(self._span, parent))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if isinstance(error, Refusal):
            _mark(self._span, error.code)
        detach(self._token)
        self._span.end()

    def call(self, server: str, url: str, model: str) -> Call:
        call = RecordedCall(server, url, model)
        if server == "local":
            self._local = call.context
        return call

    def decided(self, decision: Decision) -> None:
        for name, value in decision.extension().items():
            if value is not None:
                self._span.set_attribute(f"calibsft.{name}", value)
        if decision.cause is Cause.LOCAL_FAILED:
            return  # there is nothing to judge
        score = {} if decision.confidence is None else {"gen_ai.evaluation.score.value": decision.confidence}
        get_logger(SCOPE).emit(
            timestamp=time.time_ns(),
            context=self._local,
            event_name="gen_ai.evaluation.result",
            attributes={
                "gen_ai.evaluation.name": "confidence",
                "gen_ai.evaluation.score.label": decision.outcome.value,
                **score,
            },
        )


def _mark(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
