"""Read chat requests of clients strictly; a refusal says what to change.

A policy can decide about one plain text only. Tools, images, several choices and log-probabilities are refused, so that
nothing bypasses the policy. A client's model name is compared, never used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibsft.decisions.policy import Policy
from calibsft.gateway.failures import Refusal
from calibsft.gateway.strict_json import read_json
from calibsft.responses.formats import Format, messages

INSTRUCTIONS = ("system", "developer")
TURNS = ("user", "assistant")
# A client's sampling settings. A policy that fixes sampling overrides all but the seed.
SAMPLING = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "presence_penalty", "frequency_penalty",
)  # fmt: skip

# For each field, whether a value asks for no more than one plain text.
PLAIN: dict[str, Callable[[Any], bool]] = {
    "n": lambda value: value == 1,
    "tools": lambda value: value == [],
    "functions": lambda value: value == [],
    "tool_choice": lambda value: value in ("none", "auto"),
    "function_call": lambda value: value in ("none", "auto"),
    "response_format": lambda value: value == {"type": "text"},
    "modalities": lambda value: value == ["text"],
    "logprobs": lambda value: value is False,
    "top_logprobs": lambda value: value == 0,
    "audio": lambda value: False,
    "prediction": lambda value: False,
    "web_search_options": lambda value: False,
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for one text.

    Attributes
    ----------
    body : what the client sent.
    instructions : the texts of its system messages.
    turns : the other messages; the last one is the user's.
    stream, include_usage : whether to send a stream, and the number of tokens at its end.
    """

    body: dict[str, Any]
    instructions: tuple[str, ...]
    turns: tuple[dict[str, str], ...]
    stream: bool
    include_usage: bool

    def for_local(self, model: str, confidence_format: Format, policy: Policy) -> dict[str, Any]:
        """The question as the local model was asked in calibration.

        The client's instructions follow the format's. Earlier turns of the conversation stay as they are.
        """
        *before, last = self.turns
        system, question = messages(last["content"], confidence_format)
        system["content"] = "\n\n".join((system["content"], *self.instructions))
        # The name that vLLM and SGLang give it; OpenAI's protocol has none.
        arguments = {"chat_template_kwargs": dict(policy.template)} if policy.template else {}
        asked = {"model": model, "messages": [system, *before, question]}
        return {**asked, **arguments, **self._sampling(policy)}

    def for_strong(self, model: str, with_usage: bool = False) -> dict[str, Any]:
        """The client's request, with the strong model's name; a stream may be asked to count tokens."""
        body = {**self.body, "model": model}
        if self.stream and with_usage:
            body["stream_options"] = {**(self.body.get("stream_options") or {}), "include_usage": True}
        return body

    def _sampling(self, policy: Policy) -> dict[str, Any]:
        given = {name: self.body[name] for name in SAMPLING if self.body.get(name) is not None}
        if policy.sampling is None:
            return given
        kept = {"seed": given["seed"]} if "seed" in given else {}
        fixed = policy.sampling.model_dump(mode="json")
        return kept | {name: value for name, value in fixed.items() if value != []}


def read_request(data: bytes, served: str) -> ChatRequest:
    """The request in a body; it must name the model `served`."""
    body = _object(data)
    if not isinstance(body.get("model"), str):
        raise _bad("model is missing or not a text; send the name that /v1/models lists")
    if body["model"] != served:
        raise Refusal(
            404, "there is no such model here; /v1/models lists the one that is served", "model_not_found"
        )
    for name, is_plain in PLAIN.items():
        if body.get(name) is not None and not is_plain(body[name]):
            raise _bad(f"{name} is not supported here, since only one plain text can be judged; leave it out")
    instructions, turns = _conversation(body.get("messages"))
    stream, options = body.get("stream") or False, body.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(options, dict):
        raise _bad("stream must be true or false, and stream_options an object; correct them")
    return ChatRequest(body, instructions, turns, stream, options.get("include_usage") is True)


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = read_json(data)
    except ValueError:
        raise _bad("the body is not JSON or nested too deeply; send a JSON object") from None
    if not isinstance(body, dict):
        raise _bad("the body is not a JSON object; send one with model and messages")
    return body


def _conversation(given: Any) -> tuple[tuple[str, ...], tuple[dict[str, str], ...]]:
    if not isinstance(given, list) or not all(isinstance(message, dict) for message in given):
        raise _bad("messages must be a list of objects with role and content; correct them")
    contents = [(message.get("role"), _text(message.get("content"))) for message in given]
    if any(role not in (*INSTRUCTIONS, *TURNS) for role, _ in contents):
        raise _bad(f"the role of a message must be one of {', '.join((*INSTRUCTIONS, *TURNS))}; correct it")
    turns = tuple({"role": role, "content": text} for role, text in contents if role in TURNS)
    if not contents or contents[-1][0] != "user":
        raise _bad("the last message must be the user's; end messages with the question")
    return tuple(text for role, text in contents if role in INSTRUCTIONS), turns


def _text(content: Any) -> str:
    """The text of a message, whole or in parts."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts
    ]
    if not all(isinstance(text, str) for text in texts):
        raise _bad("the content of a message must be a text or text parts; leave out images, files and sound")
    text = "".join(texts)  # type: ignore[arg-type]
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _bad("a message holds half a character, which is not Unicode; correct its escapes") from None
    return text


def _bad(message: str) -> Refusal:
    return Refusal(400, message, "invalid_request")
