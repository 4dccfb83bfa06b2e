"""Turn a question into prompt tokens, with the model's own chat template.

If a template has no system role, the system prompt begins the user turn. If it would change worked examples - those of
reasoning models drop the reasoning of earlier turns - the examples are part of the user turn. A tokenizer without a
template gets plain text. Does not truncate: a prompt that leaves no room for an answer is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calibsft.errors import InputError
from calibsft.responses.formats import Format, messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Turn = dict[str, str]


@dataclass(frozen=True, slots=True)
class Shot:
    """A worked example: a question and a response to it."""

    question: str
    response: str


@dataclass(frozen=True, slots=True)
class Prompting:
    """How questions are asked.

    The system prompt explains the `format` of confidence. `template` has arguments for the model's chat template. `shots` are
    worked examples before the question; one with the same question is left out, since it would show the answer.
    """

    format: Format
    template: Mapping[str, Any] = field(default_factory=dict)
    shots: tuple[Shot, ...] = ()

    def turns(self, question: str) -> list[Turn]:
        """The conversation that asks `question`."""
        system, asked = messages(question, self.format)
        examples = [
            turn
            for shot in self.shots
            if shot.question.strip() != question.strip()
            for turn in (
                messages(shot.question, self.format)[-1],
                {"role": "assistant", "content": shot.response},
            )
        ]
        return [system, *examples, asked]

    def ids(self, tokenizer: "PreTrainedTokenizerBase", question: str) -> tuple[int, ...]:
        """The token ids that ask `question` and open the assistant's turn."""
        _require_arguments(tokenizer, self.template)
        turns = self.turns(question)
        return chat_ids(tokenizer, turns, _joined(turns), options=self.template)

    def conversation(self, tokenizer: "PreTrainedTokenizerBase", question: str) -> list[Turn]:
        """The turns that `ids` gives the chat template, which the tokenizer must have."""
        turns = self.turns(question)
        return _arranged(tokenizer, turns, _joined(turns), self.template)[0]

    def require_room(self, prompt: tuple[int, ...], context: int | None, question_id: str) -> None:
        """Refuse a prompt that fills the model's context."""
        if context is not None and len(prompt) >= context:
            longest = "question or give fewer shots," if self.shots else "question"
            raise InputError(
                f"question '{question_id}': its prompt has {len(prompt)} tokens and the model's context holds {context};"
                f" shorten the {longest} or take a model with a longer context"
            )


def _joined(turns: Sequence[Turn]) -> str:
    return "".join(turn["content"] for turn in turns)


def _require_arguments(tokenizer: "PreTrainedTokenizerBase", template: Mapping[str, Any]) -> None:
    """Refuse an argument that the chat template does not read: it would change nothing."""
    for name in template:
        if not re.search(rf"\b{re.escape(name)}\b", str(tokenizer.chat_template)):
            raise InputError(
                f"the chat template of this model has no argument '{name}'; leave it out of template"
            )


def chat_ids(
    tokenizer: "PreTrainedTokenizerBase",
    turns: Sequence[Turn],
    plain: str,
    ending: str = "",
    options: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """The token ids of a conversation that open the assistant's turn; `options` are for the chat template.

    `plain` is the conversation as one text. It is the user turn if the template has no system role, and, with `ending`
    after it, the prompt if there is no template.
    """
    text = _arranged(tokenizer, turns, plain, options or {})[1] if tokenizer.chat_template else plain + ending
    # A chat template writes its own special tokens; plain text gets the tokenizer's.
    ids: Any = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tuple(ids)


def _arranged(
    tokenizer: "PreTrainedTokenizerBase", turns: Sequence[Turn], plain: str, options: Mapping[str, Any]
) -> tuple[list[Turn], str]:
    """The first arrangement of the conversation that the template takes, and that shows every reply of the assistant."""
    from jinja2.exceptions import TemplateError

    replies = [turn["content"].strip() for turn in turns if turn["role"] == "assistant"]
    problem = "it drops a part of the worked examples"
    for conversation in _arrangements(turns, plain):
        try:
            text = str(
                tokenizer.apply_chat_template(
                    conversation, **options, tokenize=False, add_generation_prompt=True
                )
            )
        except (TemplateError, TypeError) as error:  # a TypeError where an argument is of the wrong kind
            problem = str(error)
            continue
        if all(words in text for words in replies):
            return conversation, text
    raise InputError(
        f"the chat template of this model cannot write a prompt: {problem}; change template or the shots, or take another"
        " model"
    )


def _arrangements(turns: Sequence[Turn], plain: str) -> Iterator[list[Turn]]:
    yield [*turns]
    if any(turn["role"] == "assistant" for turn in turns):
        yield [turns[0], {"role": "user", "content": _joined(turns[1:])}]
    yield [{"role": "user", "content": plain}]
