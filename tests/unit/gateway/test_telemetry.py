"""What OpenTelemetry gets of a question, through the SDK itself: spans and an event."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from calibsft.gateway.failures import Refusal
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.meters import Meters
from calibsft.gateway.requests import read_request
from calibsft.gateway.telemetry import RecordedTrace
from calibsft.gateway.traces import recorder
from calibsft.gateway.upstream import Upstream
from gateway_process import policy
from scripted_server import (
    ANSWER,
    QUESTION,
    THOUGHT,
    Scripted,
    chats,
    chunk,
    confident,
    fails,
    says,
    scripted_server,
    streams,
)

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENT = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1"}


@dataclass(frozen=True)
class Recorded:
    """What was exported."""

    spans: InMemorySpanExporter
    records: InMemoryLogRecordExporter

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans.get_finished_spans() if span.name == name]
        return found

    def event(self) -> ReadableLogRecord:
        (found,) = self.records.get_finished_logs()
        return found

    def text(self) -> str:
        spans = [span.to_json() for span in self.spans.get_finished_spans()]
        return "".join([*spans, *(one.to_json() for one in self.records.get_finished_logs())])


@pytest.fixture(scope="module")
def providers() -> Recorded:
    """The process's own providers, which can be set only once."""
    found = Recorded(InMemorySpanExporter(), InMemoryLogRecordExporter())
    spans, records = TracerProvider(), LoggerProvider()
    spans.add_span_processor(SimpleSpanProcessor(found.spans))
    records.add_log_record_processor(SimpleLogRecordProcessor(found.records))
    assert recorder() is not RecordedTrace, "nothing is set up before"
    trace.set_tracer_provider(spans)
    _logs.set_logger_provider(records)
    return found


@pytest.fixture
def recorded(providers: Recorded) -> Recorded:
    providers.spans.clear()
    providers.records.clear()
    return providers


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with scripted_server(lambda asked: says(confident("0.15"))) as found:
        yield found


@pytest.fixture
def strong() -> Iterator[Scripted]:
    with scripted_server(chats("canary-strong")) as found:
        yield found


def ask(local: Scripted, strong: Scripted, sent: dict[str, str] | None = None, **fields: Any) -> None:
    """One question of a client, answered to the end."""
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], **fields}

    async def run() -> None:
        before = trace.get_current_span()
        upstreams = [
            Upstream(name, server.url, f"{name}-model", "none", 30, 0)
            for name, server in (("local", local), ("strong", strong))
        ]
        gateway = Gateway(policy(), *upstreams, Meters(), 8, 8)
        try:
            request = read_request(json.dumps(body).encode(), "m")
            reply = await gateway.reply(request, "id", recorder()(SENT if sent is None else sent))
            with reply.held:
                if not isinstance(reply.content, dict):
                    assert [piece async for piece in reply.content]
        finally:
            await gateway.close()
        assert trace.get_current_span() is before, "nothing is left open"

    asyncio.run(run())


def test_a_question_is_a_span_of_the_clients_trace_and_each_model_one_inside(
    recorded: Recorded, local: Scripted, strong: Scripted
) -> None:
    ask(local, strong)
    question, mine, theirs = map(
        recorded.span, ("calibsft question", "chat local-model", "chat strong-model")
    )
    assert question.kind is SpanKind.SERVER and question.parent is not None
    assert (f"{question.parent.trace_id:032x}", f"{question.parent.span_id:016x}") == (TRACE, PARENT)
    attributes = dict(question.attributes or {})
    assert (attributes["calibsft.decision"], attributes["calibsft.confidence"]) == ("deferred", 0.15)
    for span, server in ((mine, local), (theirs, strong)):
        assert span.kind is SpanKind.CLIENT and span.parent == question.context
        port = int(server.url.split(":")[2].removesuffix("/v1"))
        name = "local" if server is local else "strong"
        assert span.attributes == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": f"{name}-model",
            "gen_ai.usage.input_tokens": 11,
            "gen_ai.usage.output_tokens": 7,
            "server.address": "127.0.0.1",
            "server.port": port,
            "calibsft.server": name,
        }
        # The server's own spans belong below this one.
        assert span.context is not None
        parent = f"00-{TRACE}-{span.context.span_id:016x}-01"
        assert server.chats[0].headers["traceparent"] == parent
        assert server.chats[0].headers["tracestate"] == "a=1"


def test_the_confidence_is_an_evaluation_of_the_local_models_response(
    recorded: Recorded, local: Scripted, strong: Scripted
) -> None:
    ask(local, strong)
    record, judged = recorded.event().log_record, recorded.span("chat local-model").context
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.attributes == {
        "gen_ai.evaluation.name": "confidence",
        "gen_ai.evaluation.score.value": 0.15,
        "gen_ai.evaluation.score.label": "deferred",
    }
    assert judged is not None and (record.trace_id, record.span_id) == (judged.trace_id, judged.span_id)


def test_a_malformed_response_is_judged_without_a_score(
    recorded: Recorded, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")
    ask(local, strong)
    assert recorded.event().log_record.attributes == {
        "gen_ai.evaluation.name": "confidence",
        "gen_ai.evaluation.score.label": "deferred",
    }


def test_where_there_is_no_response_there_is_no_evaluation(
    recorded: Recorded, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: fails(404)
    ask(local, strong)
    assert not recorded.records.get_finished_logs()
    failed = recorded.span("chat local-model")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None and failed.attributes["error.type"] == "reply"
    assert recorded.span("calibsft question").status.status_code is StatusCode.UNSET


def test_a_question_that_fails_is_marked(recorded: Recorded, local: Scripted, strong: Scripted) -> None:
    strong.answer = lambda asked: fails(500)
    with pytest.raises(Refusal):
        ask(local, strong)
    question, theirs = recorded.span("calibsft question"), recorded.span("chat strong-model")
    assert {span.status.status_code for span in (question, theirs)} == {StatusCode.ERROR}
    assert question.attributes is not None and question.attributes["error.type"] == "upstream_busy"
    assert theirs.attributes is not None and theirs.attributes["error.type"] == "busy"


def test_a_stream_is_a_span_to_its_end(recorded: Recorded, local: Scripted, strong: Scripted) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    strong.answer = lambda asked: streams(chunk("a"), chunk(None, "stop"), usage)
    ask(local, strong, stream=True)
    theirs = recorded.span("chat strong-model")
    assert theirs.attributes is not None and theirs.attributes["gen_ai.usage.output_tokens"] == 4
    assert theirs.status.status_code is StatusCode.UNSET


def test_a_stream_that_breaks_is_marked(recorded: Recorded, local: Scripted, strong: Scripted) -> None:
    strong.answer = lambda asked: streams(chunk("a"), done=False)
    ask(local, strong, stream=True)
    theirs = recorded.span("chat strong-model")
    assert theirs.attributes is not None and theirs.attributes["error.type"] == "broken"


def test_without_a_clients_trace_one_begins(recorded: Recorded, local: Scripted, strong: Scripted) -> None:
    ask(local, strong, {})
    question, mine = recorded.span("calibsft question"), recorded.span("chat local-model")
    assert question.parent is None and mine.parent == question.context


def test_inside_another_librarys_span_it_is_not_the_servers_own(
    recorded: Recorded, local: Scripted, strong: Scripted
) -> None:
    with trace.get_tracer("other").start_as_current_span("outer") as outer:
        ask(local, strong)
    question = recorded.span("calibsft question")
    assert question.kind is SpanKind.INTERNAL and question.parent == outer.get_span_context()


def test_no_text_is_recorded(recorded: Recorded, local: Scripted, strong: Scripted) -> None:
    local.answer = lambda asked: says(confident("0.15"))
    for stream in (False, True):
        ask(local, strong, stream=stream)
    text = recorded.text()
    assert "gen_ai.evaluation.result" in text
    assert not [said for said in (QUESTION, ANSWER, THOUGHT, "canary") if said in text]
