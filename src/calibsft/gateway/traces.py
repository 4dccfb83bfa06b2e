"""The trace that a request belongs to: what a client sent about it goes to the servers.

Only what keeps to the W3C's grammar does. Records nothing; that is `telemetry`, if the process was
set up for OpenTelemetry.
"""

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from starlette.datastructures import Headers

from calibsft.gateway.deciding import Decision

# https://www.w3.org/TR/trace-context/; an id of zeros is none, and only versions to come may have
# more fields.
PARENT = re.compile(
    "(?!ff)(?!00-.{52}.)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,200})?"
)
KEY = "[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
MEMBER = re.compile(f"({KEY})=[ -+\\--<>-~]{{0,255}}[!-+\\--<>-~]")
MOST_MEMBERS, LONGEST_STATE = 32, 512


class Block:
    """Something with a beginning and an end, which is not recorded here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Call(Block):
    """One request to a server.

    Attributes
    ----------
    headers : sent with it.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    def replied(self, reply: dict[str, Any]) -> None:
        """Note what a completion or the last chunk of a stream says about itself."""

    def failed(self, kind: str) -> None:
        """Note what went wrong after the reply had begun."""


class Trace(Block):
    """One request of a client.

    Parameters
    ----------
    headers : what the client sent about its trace, as `trace_headers` returns it.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    def call(self, server: str, url: str, model: str) -> Call:
        """A request to `model` at the "local" or "strong" server."""
        return Call(self.headers)

    def decided(self, decision: Decision) -> None:
        """Note what was decided about the question."""


def trace_headers(sent: Headers) -> dict[str, str]:
    """The client's trace, empty if it sent none or a wrong one."""
    parents, state = sent.getlist("traceparent"), ",".join(sent.getlist("tracestate"))
    if len(parents) != 1 or not PARENT.fullmatch(parents[0]):
        return {}
    return {"traceparent": parents[0]} | ({"tracestate": state} if _is_state(state) else {})


def _is_state(state: str) -> bool:
    members = [member.strip(" \t") for member in state.split(",")]
    found = [MEMBER.fullmatch(member) for member in members if member]
    keys = {match[1] for match in found if match}
    return 0 < len(found) <= MOST_MEMBERS and len(keys) == len(found) and len(state) <= LONGEST_STATE


def recorder() -> type[Trace]:
    """What records traces in this process."""
    try:
        from calibsft.gateway.telemetry import RecordedTrace, is_set_up
    except ImportError:  # without the extra
        return Trace
    return RecordedTrace if is_set_up() else Trace
