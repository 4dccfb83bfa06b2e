"""Make an unfinished response end: ask for the answer at the cut, then for the confidence.

Used for token budgets at evaluation, and for truncated training responses if a recipe counts the answers to them. The
model's text before the cut stays as it is; only the text that closes its reasoning and opens the next element is added.
Does not choose what to cut.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibsft.engines.engine import Completion, Engine, Request, Sampling, Tokenizer
from calibsft.responses.spans import decode

THINKING_ENDED = "\n\nThinking time ended. This is my final answer.\n</think> <answer>"
ANSWER_TOKENS = 50
CONFIDENCE_TOKENS = 16
# In tokens: a tag has at most one per character.
LONGEST_TAG = len("</confidence>")
_TAG = re.compile(r"</?[a-z]+>")
_TAGS = tuple(f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "answer", "confidence"))


@dataclass(frozen=True, slots=True)
class Cut:
    """A response to end: the tokens that stay, and the seed of the tokens that follow."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class _Element:
    """An element that the model is made to write."""

    name: str
    tokens: int
    opening: Callable[[str], str | None]


def _answer_opening(text: str) -> str | None:
    """The text that opens the answer; None if the response has an answer."""
    _, thought, rest = text.rpartition("</think>")
    if not thought:
        return THINKING_ENDED
    if "</answer>" in rest:
        return None
    return "" if "<answer>" in rest else " <answer>"


def _confidence_opening(text: str) -> str | None:
    _, _, rest = text.rpartition("</answer>")
    if "</confidence>" in rest:
        return None
    return "" if "<confidence>" in rest else " <confidence>"


_ANSWER = _Element("answer", ANSWER_TOKENS, _answer_opening)
_CONFIDENCE = _Element("confidence", CONFIDENCE_TOKENS, _confidence_opening)


def force_endings(
    engine: Engine, cuts: Sequence[Cut], sampling: Sampling, confidence: bool = True
) -> list[Completion]:
    """End every response with an answer and, if asked for, a confidence, in order.

    A response is cut further if the model's context has no room for the ending. Of `sampling`, temperature and top-p apply to
    the forced tokens. Tokens that were not sampled here have NaN as log-probability and entropy. `finished` says whether the
    last element was closed.
    """
    bodies = [_body(engine.tokenizer, cut, engine.context) for cut in cuts]
    for element in (_ANSWER, _CONFIDENCE) if confidence else (_ANSWER,):
        bodies = _write(engine, cuts, bodies, element, sampling)
    return bodies


def _body(tokenizer: Tokenizer, cut: Cut, context: int | None) -> Completion:
    """The part of a response that stays: without a cut tag, and with room for the ending."""
    ids = cut.token_ids
    if context is not None:
        room = context - len(cut.prompt_ids)
        ending = len(_ids(tokenizer, THINKING_ENDED + "</answer> <confidence>"))
        ids = ids[: room - min(ending + ANSWER_TOKENS + CONFIDENCE_TOKENS, room // 2)]
    while ids and _ends_inside_tag(decode(tokenizer, ids[-LONGEST_TAG:])):
        ids = ids[:-1]
    return Completion.without_figures(ids, finished=False)


def _ends_inside_tag(text: str) -> bool:
    start = text.rfind("<")
    return start >= 0 and any(tag.startswith(text[start:]) and tag != text[start:] for tag in _TAGS)


def _write(
    engine: Engine, cuts: Sequence[Cut], bodies: Sequence[Completion], element: _Element, sampling: Sampling
) -> list[Completion]:
    """Let the model write `element` after every body that lacks it and has room for it."""
    tokenizer, context = engine.tokenizer, engine.context
    openings = [element.opening(decode(tokenizer, body.token_ids)) for body in bodies]
    opened = {
        i: _join(bodies[i], Completion.without_figures(_ids(tokenizer, opening), finished=False))
        for i, opening in enumerate(openings)
        if opening is not None
    }
    prompts = {i: cuts[i].prompt_ids + body.token_ids for i, body in opened.items()}
    fitting = [i for i, prompt in prompts.items() if context is None or len(prompt) < context]
    requests = [Request(prompts[i], (cuts[i].seed,)) for i in fitting]
    drawing = replace(sampling, max_new_tokens=element.tokens, stop=(f"</{element.name}>",))
    results = engine.generate(requests, drawing)
    ended = list(bodies)
    for i, (written,) in zip(fitting, results, strict=True):
        ended[i] = _closed(engine, opened[i], written, element)
    return ended


def _closed(engine: Engine, body: Completion, written: Completion, element: _Element) -> Completion:
    """`body` with `written` after it; an answer that did not end is closed at its last token."""
    if written.token_ids and written.token_ids[-1] in engine.end_ids:
        written = Completion(
            written.token_ids[:-1], written.finished, written.logprobs[:-1], written.entropies[:-1]
        )
    closing = f"</{element.name}>"
    closed = closing in decode(engine.tokenizer, written.token_ids)
    joined = _join(body, replace(written, finished=closed))
    if element is _ANSWER and not closed:
        return _join(joined, Completion.without_figures(_ids(engine.tokenizer, closing), finished=True))
    return joined


def _ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The tokens of `text`, or of its tags alone if the vocabulary lacks the other words."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in ids:
        ids = tokenizer("".join(_TAG.findall(text)), add_special_tokens=False)["input_ids"]
    return tuple(ids)


def _join(before: Completion, after: Completion) -> Completion:
    return Completion(
        before.token_ids + after.token_ids,
        after.finished,
        np.concatenate([before.logprobs, after.logprobs]),
        np.concatenate([before.entropies, after.entropies]),
    )
