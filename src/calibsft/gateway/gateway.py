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
from calibsft.gateway.deciding import Decision, Outcome, Reading, decide, read_response
from calibsft.gateway.drift import WINDOW, Drift
from calibsft.gateway.failures import Refusal, UpstreamFailure
from calibsft.gateway.meters import Meters
from calibsft.gateway.replies import DONE, finished, json_of, text_of
from calibsft.gateway.requests import ChatRequest
from calibsft.gateway.upstream import Upstream
from calibsft.responses.formats import get_format

log = logging.getLogger("calibsft.gateway")
# No reply has more; a server that reports more is not counted.
MOST_TOKENS = 1 << 40
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
    """

    def __init__(
        self,
        policy: Policy,
        local: Upstream,
        strong: Upstream | None,
        meters: Meters,
        concurrency: int,
        queue: int,
    ) -> None:
        self.policy, self.meters = policy, meters
        self._id, self._format = policy.id, get_format(policy.format)
        self._local, self._strong = local, strong
        self._places, self._queue = asyncio.Semaphore(concurrency), queue
        self._waiting = 0
        meters.waiting.set_function(lambda: self._waiting)
        self._drift = Drift.of(policy)

    async def close(self) -> None:
        for upstream in (self._local, self._strong):
            if upstream is not None:
                await upstream.close()

    async def reply(self, request: ChatRequest, request_id: str) -> Reply:
        """Decide about a question and get the answer from the model that gives it."""
        await self._take_place()
        with ExitStack() as held:
            held.callback(self._places.release)
            held.enter_context(self.meters.in_flight.track_inprogress())
            decision, content = await self._decided(request, request_id, held)
            self.meters.decisions.labels(decision.outcome, decision.cause).inc()
            return Reply(decision, content, held.pop_all())

    async def _decided(
        self, request: ChatRequest, request_id: str, held: ExitStack
    ) -> tuple[Decision, Content]:
        try:
            local = await self._ask_local(request)
        except UpstreamFailure:
            if self.policy.on_local_failure != DEFER:
                raise
            decision = decide(self.policy, self._id, None)
            return decision, await self._deferred(request, decision, held)
        reading = read_response(text_of(local) or "", finished(local), self._format)
        self._count(reading)
        decision = decide(self.policy, self._id, reading)
        if decision.outcome is Outcome.DEFERRED:
            return decision, await self._deferred(request, decision, held)
        completion = local_completion(local, reading, decision, request_id)
        return decision, in_pieces(completion, request.include_usage) if request.stream else completion

    async def _ask_local(self, request: ChatRequest) -> dict[str, Any]:
        with self._timed(self._local):
            body = request.for_local(await self._local.model(), self._format, self.policy)
            completion = await self._local.complete(body)
        self._count_tokens(self._local.name, completion.get("usage"))
        return completion

    async def _deferred(self, request: ChatRequest, decision: Decision, held: ExitStack) -> Content:
        strong = self._strong
        assert strong is not None
        with self._timed(strong):
            body = request.for_strong(await strong.model())
            if request.stream:
                return self._passed_on(await strong.stream(body, held), decision)
            completion = await strong.complete(body)
        self._count_tokens(strong.name, completion.get("usage"))
        return extended(completion, decision)

    async def _passed_on(self, events: AsyncIterator[str], decision: Decision) -> AsyncIterator[bytes]:
        """The strong model's stream, with the decision in its first chunk."""
        first = True
        try:
            async for data in events:
                yield event(extended(json_of(data), decision) if first else data)
                first = False
            yield event(DONE)
        except UpstreamFailure as failure:
            self._failed("strong", failure)
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

    def _count(self, reading: Reading) -> None:
        if reading.confidence is not None:
            self.meters.confidences.observe(reading.confidence)
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

    def _count_tokens(self, upstream: str, usage: Any) -> None:
        for kind in ("prompt", "completion"):
            tokens = usage.get(f"{kind}_tokens") if isinstance(usage, dict) else None
            if isinstance(tokens, int) and 0 <= tokens <= MOST_TOKENS:
                self.meters.tokens.labels(upstream, kind).inc(tokens)
