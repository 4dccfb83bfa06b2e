"""One server of a fleet: a request and its reply, why it failed, and when the server may be asked again.

A server that fails several times in a row rests, each time longer, and is then tried with one request at a time until it
replies. Does not repeat a request: that is `fleet`.
"""

import asyncio
import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from calibsft.served.client import Broken, Client
from calibsft.served.keys import NO_KEY, quoted
from calibsft.served.pauses import growing_pause

# How many failures in a row make a server rest.
FAILURES = 3
FIRST_REST, LONGEST_REST = 0.5, 60.0
LARGEST_REPLY = 64 << 20
# The request itself is wrong.
REFUSED = frozenset({400, 413, 415, 422})
# The server may answer the same request a moment later.
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})

Reply = dict[str, Any]


@dataclass(eq=False)
class Failed(Exception):
    """A request without a reply.

    Attributes
    ----------
    why : "unreachable", "timeout", "reply" (not what it should be) or "status".
    status, answer, code : what the server answered, for "status"; `code` is its own code for the reason.
    pause : how many seconds it asks to wait.
    """

    why: str
    status: int = 0
    answer: str = ""
    pause: float = 0.0
    code: str = ""

    @property
    def refused(self) -> bool:
        """Whether the server would refuse the same request again."""
        return self.status in REFUSED


class Server:
    """One OpenAI-compatible server.

    Parameters
    ----------
    url : the address of the API, usually ending in /v1.
    key : its API key, or `NO_KEY`; no failure shows it.
    timeout : seconds that one request may take.

    Attributes
    ----------
    rests : how often it has rested since it last replied.
    """

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self.url = url
        self.rests = 0
        self._key, self._timeout = key, timeout
        self._client = Client(url.rstrip("/"), {"authorization": f"Bearer {key}"} if key != NO_KEY else {})
        self._failures = self._asking = 0
        self._until = 0.0

    async def close(self) -> None:
        await self._client.close()

    @property
    def failed(self) -> bool:
        """Whether its last request failed; it may have been restarted since."""
        return bool(self._failures or self.rests)

    async def ready(self) -> None:
        """Wait until it may be asked."""
        while (rest := self._until - monotonic()) > 0 or (self.rests and self._asking):
            await asyncio.sleep(max(rest, 0.05))

    async def ask(self, method: str, path: str, body: Reply | None = None) -> Reply:
        """The reply, a JSON object; raises `Failed`."""
        self._asking += 1
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._ask(method, path, json.dumps(body).encode() if body is not None else b"")
        except (TimeoutError, Broken) as error:
            failure = Failed("timeout" if isinstance(error, TimeoutError) else "unreachable")
            self._count(failure)
            raise failure from None
        except Failed as failure:
            self._count(failure)
            raise
        finally:
            self._asking -= 1
        self._failures = self.rests = 0
        return reply

    async def _ask(self, method: str, path: str, content: bytes) -> Reply:
        received = await self._client.ask(method, path, content)
        reply = _json(await received.whole(LARGEST_REPLY, Failed("reply")))
        if received.status != 200:
            pause, error = received.asked_pause(LONGEST_REST), error_in(reply)
            code = error.get("code") if isinstance(error, dict) else ""
            raise Failed("status", received.status, quoted(error, self._key), pause, str(code))
        if not isinstance(reply, dict):
            raise Failed("reply")
        return reply

    def _count(self, failure: Failed) -> None:
        """Rest after several failures in a row, or if the server asks for it; a refusal of one request is no failure."""
        if failure.refused or monotonic() < self._until:
            return  # one rest for all that failed together
        self._failures += 1
        if self._failures >= FAILURES or self.rests or failure.pause:
            grown = growing_pause(FIRST_REST, LONGEST_REST, self.rests)
            self._until = monotonic() + max(failure.pause, grown)
            self.rests, self._failures = self.rests + 1, 0


def first_choice(reply: Reply) -> Reply:
    """The first choice of a reply; raises `Failed` if there is none."""
    match reply.get("choices"):
        case [dict(choice), *_]:
            return choice
    raise Failed("reply")


def error_in(reply: Any) -> Any:
    """The server's words about an error: vLLM, llama.cpp and hosted APIs put them in different places."""
    inner = reply.get("error") if isinstance(reply, dict) else None
    return inner if isinstance(inner, dict | str) else reply


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
