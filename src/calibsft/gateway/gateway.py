"""Handle one question: ask the local model, decide, then answer, abstain or ask the strong model.

Does not know HTTP on the client's side: that is `app`. Logs no text of a client or a model.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from calibsft.decisions.policy import DEFER, Policy
from calibsft.gateway.completions import event, extended, in_pieces, local_completion
from calibsft.gateway.deciding import Decision, Outcome, Reading, alarmed, decide, read_response
from calibsft.gateway.drift import WINDOW, Drift
from calibsft.gateway.failures import Refusal, UpstreamFailure
from calibsft.gateway.labels import Labels
from calibsft.gateway.meters import Meters
from calibsft.gateway.replies import DONE, Chunk, finished, is_usage_alone, text_of, tokens_in
from calibsft.gateway.requests import ChatRequest
from calibsft.gateway.traces import Call, Trace
from calibsft.gateway.upstream import Upstream
from calibsft.responses.formats import get_format

log = logging.getLogger("calibsft.gateway")
Content = dict[str, Any] | AsyncIterator[bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What a client gets: a completion or its stream. `held` must be closed after the last byte is sent."""

    decision: Decision
    content: Content
    held: ExitStack


class Gateway:
    """Acts on one policy.

    Parameters
    ----------
    local, strong : the models' servers; `strong` may be None if the policy never defers.
    concurrency : questions handled at the same time; others wait.
    queue : how many may wait; more are refused.
    labels : where responses wait for their labels; None if none are taken.
    """

    def __init__(
        self,
        policy: Policy,
        local: Upstream,
        strong: Upstream | None,
        meters: Meters,
        concurrency: int,
        queue: int,
        labels: Labels | None = None,
    ) -> None:
        self.policy, self.meters, self.labels = policy, meters, labels
        self._id, self._format = policy.id, get_format(policy.format)
        self._local, self._strong = local, strong
        self._places, self._queue = asyncio.Semaphore(concurrency), queue
        self._waiting = 0
        self._counts_streams = True
        meters.waiting.set_function(lambda: self._waiting)
        self._drift = Drift.of(policy)

    async def close(self) -> None:
        for upstream in (self._local, self._strong):
            if upstream is not None:
                await upstream.close()
        if self.labels is not None:
            self.labels.close()

    async def reply(self, request: ChatRequest, request_id: str, trace: Trace) -> Reply:
        """Decide about a question and get the answer from the model that gives it."""
        with ExitStack() as held:
            held.enter_context(trace)
            await self._take_place()
            held.callback(self._places.release)
            held.enter_context(self.meters.in_flight.track_inprogress())
            decision, content = await self._decided(request, request_id, trace, held)
            if self.labels is not None:
                await self.labels.remember(decision.id, decision.outcome is Outcome.ANSWERED)
            self.meters.decisions.labels(decision.outcome, decision.cause).inc()
            return Reply(decision, content, held.pop_all())

    async def _decided(
        self, request: ChatRequest, request_id: str, trace: Trace, held: ExitStack
    ) -> tuple[Decision, Content]:
        if self.labels is not None and self.labels.alarm:
            stopped = alarmed(self.policy, self._id, request_id)
            if stopped is not None:
                return await self._while_alarmed(request, stopped, trace, held)
        try:
            local = await self._ask_local(request, trace)
        except UpstreamFailure:
            if self.policy.on_local_failure != DEFER:
                raise
            decision = decide(self.policy, self._id, None, request_id)
            trace.decided(decision)
            return decision, await self._deferred(request, decision, trace, held)
        reading = read_response(text_of(local) or "", finished(local), self._format)
        self._count(reading, request_id)
        decision = decide(self.policy, self._id, reading, request_id)
        trace.decided(decision)
        if decision.outcome is Outcome.DEFERRED:
            return decision, await self._deferred(request, decision, trace, held)
        return decision, _given(local_completion(local, reading, decision, request_id), request)

    async def _while_alarmed(
        self, request: ChatRequest, decision: Decision, trace: Trace, held: ExitStack
    ) -> tuple[Decision, Content]:
        """Abstain or defer without asking the local model, whose answer would not be given."""
        trace.decided(decision)
        if decision.outcome is Outcome.DEFERRED:
            return decision, await self._deferred(request, decision, trace, held)
        return decision, _given(local_completion({}, Reading(), decision, decision.id), request)

    async def _ask_local(self, request: ChatRequest, trace: Trace) -> dict[str, Any]:
        server = self._local
        with self._timed(server):
            model = await server.model()
            with trace.call(server.name, server.url, model) as call:
                body = request.for_local(model, self._format, self.policy)
                completion = await server.complete(body, call.headers)
                self._count_tokens(server.name, completion, call)
        return completion

    async def _deferred(
        self, request: ChatRequest, decision: Decision, trace: Trace, held: ExitStack
    ) -> Content:
        server = self._strong
        assert server is not None
        with self._timed(server):
            model = await server.model()
            call = held.enter_context(trace.call(server.name, server.url, model))
            if request.stream:
                chunks = await self._opened(server, request, model, call, held)
                last: dict[str, Any] = {}
                held.callback(lambda: self._count_tokens(server.name, last, call))
                return self._passed_on(chunks, decision, request.include_usage, call, last)
            completion = await server.complete(request.for_strong(model), call.headers)
        self._count_tokens(server.name, completion, call)
        return extended(completion, decision)

    async def _opened(
        self, server: Upstream, request: ChatRequest, model: str, call: Call, held: ExitStack
    ) -> AsyncIterator[Chunk]:
        """The strong model's stream, which counts its tokens in the end, unless the server refuses."""
        asked = self._counts_streams or request.include_usage
        try:
            return await server.stream(request.for_strong(model, asked), held, call.headers)
        except UpstreamFailure as failure:
            if failure.kind != "refused" or not asked or request.include_usage:
                raise
        chunks = await server.stream(request.for_strong(model), held, call.headers)
        self._counts_streams = False
        log.warning("%s model: its server refuses to count the tokens of streams", server.name)
        return chunks

    async def _passed_on(
        self,
        chunks: AsyncIterator[Chunk],
        decision: Decision,
        include_usage: bool,
        call: Call,
        last: dict[str, Any],
    ) -> AsyncIterator[bytes]:
        """The strong model's stream, with the decision in its first chunk.

        The last count of tokens is put into `last`, and left out if it was not asked for.
        """
        first = True
        try:
            async for data, chunk in chunks:
                if tokens_in(chunk):
                    last["usage"] = chunk["usage"]
                if is_usage_alone(chunk) and not include_usage:
                    continue
                yield event(extended(chunk, decision) if first else data)
                first = False
            yield event(DONE)
        except UpstreamFailure as failure:
            self._failed("strong", failure)
            call.failed(failure.kind)
            yield event(failure.body())

    async def _take_place(self) -> None:
        if self._places.locked() and self._waiting >= self._queue:
            raise Refusal(429, "too many requests are waiting; try again later", "busy", {"retry-after": "1"})
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1

    @contextmanager
    def _timed(self, upstream: Upstream) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except UpstreamFailure as failure:
            self._failed(upstream.name, failure)
            raise
        self.meters.upstream_seconds.labels(upstream.name).observe(time.perf_counter() - began)

    def _failed(self, upstream: str, failure: UpstreamFailure) -> None:
        self.meters.failures.labels(upstream, failure.kind).inc()
        log.warning("%s model: %s (%d)", upstream, failure.kind, failure.status)

    def _count(self, reading: Reading, request_id: str) -> None:
        if reading.confidence is not None:
            self.meters.confidences.observe(reading.confidence)
        if reading.malformed is not None:
            self.meters.malformed.labels(reading.malformed).inc()
            log.info("local response malformed (%s), %s", reading.malformed, request_id)
        before = self._drift.drifted
        if not self._drift.add(reading.reached):
            return
        self.meters.drift_distance.set(self._drift.distance or 0)
        self.meters.drifted.set(self._drift.drifted)
        if self._drift.drifted and not before:
            log.warning(
                "live confidences differ from those of calibration (distance %.2f, limit %.2f, over the last %d responses):"
                " the guarantee may no longer hold; calibrate on recent questions",
                self._drift.distance,
                self._drift.limit,
                WINDOW,
            )
        elif before and not self._drift.drifted:
            log.warning("live confidences look like those of calibration again")

    def _count_tokens(self, upstream: str, reply: dict[str, Any], call: Call) -> None:
        call.replied(reply)
        counted = tokens_in(reply)
        for kind, tokens in counted.items():
            self.meters.tokens.labels(upstream, kind).inc(tokens)
        if not counted:
            self.meters.uncounted.labels(upstream).inc()


def _given(completion: dict[str, Any], request: ChatRequest) -> Content:
    """A completion of the gateway's own, whole or as a stream."""
    return in_pieces(completion, request.include_usage) if request.stream else completion
