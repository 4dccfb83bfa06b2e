"""An OpenAI-compatible server: the connection, parallel requests, and error messages.

The key comes from the environment and goes only to the server: no error shows it, or the server's text when it refuses
it. The client library does the retries. Does not know what is asked or how a reply is read, and starts no server.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from calibsft.errors import InputError
from calibsft.text import printable

if TYPE_CHECKING:
    from openai import APIError, OpenAI

COMMON_KEY = "OPENAI_API_KEY"
NO_KEY = "none"
MAX_QUOTE = 200
PIECE = 6

R = TypeVar("R")
Way = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """The purpose of an endpoint, in words for its error messages.

    Attributes
    ----------
    who, gives
        For example "the judge" and "chat completions".
    key
        The environment variable of its key; `OPENAI_API_KEY` if that is not set.
    url, model
        The names of the settings for them.
    when_slow, when_busy, when_refused
        The remedy if the server does not reply, wants fewer requests, or refuses the request.
    """

    who: str
    gives: str
    key: str
    url: str
    model: str
    when_slow: str
    when_busy: str
    when_refused: str


class Endpoint:
    """One served model.

    Parameters
    ----------
    url
        The address of the API, usually ending in /v1.
    model
        The model's name there.
    ways
        Ways to make the same request, the best first. Servers refuse fields that they do not know; the first way that is
        not refused is kept.
    concurrency
        Requests at the same time.
    timeout
        Seconds that one request may take.
    retries
        How often a request is repeated, with growing pauses, if the server is busy, fails or does not reply.
    """

    def __init__(
        self,
        role: Role,
        url: str,
        model: str,
        ways: Sequence[Way],
        concurrency: int,
        timeout: float,
        retries: int,
    ) -> None:
        self.model = model
        self._role, self._url, self._ways = role, url, tuple(ways)
        self._concurrency, self._timeout, self._retries = concurrency, timeout, retries
        self._way: Way | None = None

    def ask_all(
        self, sizes: Sequence[int], ask: Callable[[int], R], on_reply: Callable[[int, R], None]
    ) -> None:
        """Call `ask(i)` for every request, several at a time, and `on_reply(i, reply)` in this thread.

        If one fails, no further requests are made, and the failure is raised after all replies that came were passed on.
        """
        # The shortest request goes first and alone: if it is refused, the server is wrong and not the request.
        first, *others = sorted(range(len(sizes)), key=sizes.__getitem__)
        on_reply(first, ask(first))
        failure: BaseException | None = None
        with ThreadPoolExecutor(self._concurrency) as pool:
            futures = {pool.submit(ask, i): i for i in others}
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    if (error := future.exception()) is None:
                        on_reply(futures[future], future.result())
                    else:
                        failure = failure or error
                        _cancel(futures)
            finally:
                _cancel(futures)  # otherwise the pool would make all other requests before it closes
        if failure is not None:
            raise failure

    def choice(self, create: Callable[["OpenAI", Way], Any]) -> Any:
        """The first choice of a reply, None if the server refuses this one request.

        `create` makes the request with the client in one of the ways. The contents of the choice are not checked.
        """
        from openai import APIError, BadRequestError, UnprocessableEntityError

        refusal: APIError | None = None
        for way in self._ways if self._way is None else (self._way,):
            try:
                found = self._first_choice(create, way)
            except (BadRequestError, UnprocessableEntityError) as error:
                refusal = error
                continue
            except APIError as error:
                # From None: the server's reply may contain the key.
                raise self._problem(error) from None
            self._way = way
            return found
        assert refusal is not None
        if self._way is None and refusal.code != "content_filter":
            raise self._problem(refusal) from None
        return None

    def _first_choice(self, create: Callable[["OpenAI", Way], Any], way: Way) -> Any:
        client = self._client  # outside: its errors are about the key
        try:
            choices = getattr(create(client, way), "choices", None)
        except ValueError as error:  # not JSON at all
            raise self._wrong_reply() from error
        if not isinstance(choices, list) or not choices:
            raise self._wrong_reply()
        return choices[0]

    def _wrong_reply(self) -> InputError:
        """The error about a server that replies with something else."""
        role = self._role
        return InputError(
            f"{self._url} does not reply with {role.gives}; correct {role.url}, which usually ends in /v1"
        )

    @cached_property
    def _key(self) -> str:
        return key_from(self._role.key, COMMON_KEY)

    @cached_property
    def _client(self) -> "OpenAI":
        from openai import OpenAI

        return OpenAI(base_url=self._url, api_key=self._key, timeout=self._timeout, max_retries=self._retries)

    def _problem(self, error: "APIError") -> InputError:
        from openai import APIStatusError, APITimeoutError

        role = self._role
        server = f"{role.who} at {self._url}"
        if isinstance(error, APITimeoutError):
            return InputError(
                f"{server} took more than {self._timeout:g} seconds, {self._retries + 1} times in a row;"
                f" {role.when_slow}"
            )
        if not isinstance(error, APIStatusError):
            return InputError(f"{server} cannot be reached; start its server or correct {role.url}")
        status, said = error.status_code, f"({error.status_code}{quoted(error.body, self._key)})"
        if status in (401, 403):
            return InputError(f"{server} refuses the API key ({status}); set the right one in {role.key}")
        if status == 404:
            return InputError(
                f"{server} has no {role.gives} of a model '{self.model}' {said}; correct {role.model}, or {role.url},"
                " which usually ends in /v1"
            )
        if status == 429:
            return InputError(f"{server} wants fewer requests {said}; {role.when_busy}")
        if status >= 500:
            return InputError(f"{server} fails {said}; see to that server and run again")
        return InputError(f"{server} refuses what it is asked {said}; {role.when_refused}")


def key_from(*names: str) -> str:
    """The key in the first of these environment variables that is set, or `NO_KEY`."""
    name = next((name for name in names if os.environ.get(name, "").strip()), None)
    key = os.environ[name].strip() if name else NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"the key in {name} holds characters that no key has; set it again")
    return key


def quoted(body: object, key: str) -> str:
    """A server's message about a refusal, after a colon; empty if it contains any part of the key."""
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else body
    if not isinstance(text, str) or not text.strip():
        return ""
    text = " ".join(printable(text).split())
    return "" if key != NO_KEY and _shows(key, text) else f": {text}"[:MAX_QUOTE]


def _cancel(futures: dict[Future[R], int]) -> None:
    for future in futures:
        future.cancel()


def _shows(key: str, text: str) -> bool:
    """Whether the text contains a piece of the key, forwards or backwards."""
    pieces = (side[i : i + PIECE] for side in (key, key[::-1]) for i in range(max(1, len(key) - PIECE + 1)))
    return any(piece in text for piece in pieces)
