"""A judge behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, or a provider's.

The key comes from the environment (`CALIBSFT_JUDGE_API_KEY`, else `OPENAI_API_KEY`) and goes to the server alone:
no error repeats it, nor what a server says when it refuses it. Retries are the client's own. Does not start a
server.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calibsft.errors import InputError
from calibsft.text import printable
from calibsft.verify.judge.prompt import Prompt

if TYPE_CHECKING:
    from openai import APIError, OpenAI

KEYS = ("CALIBSFT_JUDGE_API_KEY", "OPENAI_API_KEY")
NO_KEY = "none"
MAX_QUOTE = 200
PIECE = 6

# Ways to ask for one token without thinking first; servers refuse fields that they do not know.
_WAYS: tuple[dict[str, Any], ...] = (
    {"max_tokens": 1, "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    {"max_tokens": 1},
    {"max_completion_tokens": 1},
)


class EndpointJudge:
    """Asks a served model; see `JudgeModel`.

    Parameters
    ----------
    url
        Where the API begins, usually ending in /v1.
    model
        The model's name there.
    concurrency
        Requests under way at the same time.
    timeout
        Seconds that one request may take.
    retries
        How often a request is repeated, with growing pauses, when the server is busy, fails or is silent.
    """

    def __init__(
        self, url: str, model: str, concurrency: int = 8, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self.name = model
        self._url, self._concurrency, self._timeout, self._retries = url, concurrency, timeout, retries
        self._way: dict[str, Any] | None = None

    def ask(self, prompts: Sequence[Prompt], on_reply: Callable[[int, str | None], None]) -> None:
        # The shortest goes alone: if even that one is refused, the server is wrong and not the prompt.
        first, *others = sorted(range(len(prompts)), key=lambda i: len(prompts[i].user))
        on_reply(first, self._reply(prompts[first]))
        failure: BaseException | None = None
        with ThreadPoolExecutor(self._concurrency) as pool:
            futures = {pool.submit(self._reply, prompts[i]): i for i in others}
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
                _cancel(futures)  # or leaving the pool would ask all the rest first
        if failure is not None:
            raise failure

    @cached_property
    def _key(self) -> str:
        name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
        key = os.environ[name].strip() if name else NO_KEY
        if not (key.isascii() and key.isprintable()):
            raise InputError(f"the key in {name} holds characters that no key has; set that variable anew")
        return key

    @cached_property
    def _client(self) -> "OpenAI":
        from openai import OpenAI

        return OpenAI(base_url=self._url, api_key=self._key, timeout=self._timeout, max_retries=self._retries)

    def _reply(self, prompt: Prompt) -> str | None:
        """What the model says, None if the server refuses this one prompt."""
        from openai import APIError, BadRequestError, UnprocessableEntityError

        refusal: APIError | None = None
        for way in _WAYS if self._way is None else (self._way,):
            try:
                reply = self._request(prompt, way)
            except (BadRequestError, UnprocessableEntityError) as error:
                refusal = error
                continue
            except APIError as error:
                # From None: a server may repeat the key in what it sends.
                raise self._problem(error) from None
            self._way = way
            return reply
        assert refusal is not None
        if self._way is None and refusal.code != "content_filter":
            raise self._problem(refusal) from None
        return None

    def _request(self, prompt: Prompt, way: dict[str, Any]) -> str:
        from openai.types.chat import ChatCompletion

        chat = self._client.chat
        try:
            found: Any = chat.completions.create(
                model=self.name,
                messages=prompt.messages,
                temperature=0,
                **way,
            )
        except ValueError as error:  # not JSON at all
            raise self._no_endpoint() from error
        if not isinstance(found, ChatCompletion) or not found.choices:
            raise self._no_endpoint()
        content = getattr(found.choices[0].message, "content", None)
        return content if isinstance(content, str) else ""

    def _no_endpoint(self) -> InputError:
        return InputError(
            f"{self._url} does not reply with chat completions; correct judge.url, which usually ends in /v1"
        )

    def _problem(self, error: "APIError") -> InputError:
        from openai import APIStatusError, APITimeoutError

        judge = f"the judge at {self._url}"
        if isinstance(error, APITimeoutError):
            return InputError(
                f"{judge} took more than {self._timeout:g} seconds, {self._retries + 1} times in a row; raise"
                " judge.timeout or lower judge.concurrency"
            )
        if not isinstance(error, APIStatusError):
            return InputError(f"{judge} cannot be reached; start its server or correct judge.url")
        status, said = error.status_code, f"({error.status_code}{self._quote(error)})"
        if status in (401, 403):
            return InputError(f"{judge} refuses the API key ({status}); set the right one in {KEYS[0]}")
        if status == 404:
            return InputError(
                f"{judge} has no chat completions of a model '{self.name}' {said}; correct judge.model, or judge.url,"
                " which usually ends in /v1"
            )
        if status == 429:
            return InputError(
                f"{judge} wants fewer requests {said}; lower judge.concurrency, or run again later"
            )
        if status >= 500:
            return InputError(f"{judge} fails {said}; see to that server and run again")
        return InputError(f"{judge} refuses what it is asked {said}; try another judge.model")

    def _quote(self, error: "APIError") -> str:
        """What the server says of a refusal, unless it repeats any part of the key."""
        body = error.body
        text = body.get("message") or body.get("detail") if isinstance(body, dict) else body
        if not isinstance(text, str) or not text.strip():
            return ""
        text = " ".join(printable(text).split())
        return "" if self._key != NO_KEY and _shows(self._key, text) else f": {text}"[:MAX_QUOTE]


def _cancel(futures: dict[Future[str | None], int]) -> None:
    for future in futures:
        future.cancel()


def _shows(key: str, text: str) -> bool:
    """Whether a piece of the key stands in the text, forwards or backwards."""
    pieces = (side[i : i + PIECE] for side in (key, key[::-1]) for i in range(max(1, len(key) - PIECE + 1)))
    return any(piece in text for piece in pieces)
