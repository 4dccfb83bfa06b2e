"""Turn a question into prompt tokens, with the model's own chat template.

If a template has no system role, the system prompt begins the user turn. A tokenizer without a template gets plain text.
Does not truncate: a prompt that leaves no room for an answer is refused.
"""

from typing import TYPE_CHECKING, Any

from calibsft.errors import InputError
from calibsft.responses.formats import Format, messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def prompt_ids(
    tokenizer: "PreTrainedTokenizerBase", question: str, confidence_format: Format
) -> tuple[int, ...]:
    """The token ids that ask `question` and open the assistant's turn."""
    turns = messages(question, confidence_format)
    return chat_ids(tokenizer, turns, "".join(turn["content"] for turn in turns))


def chat_ids(
    tokenizer: "PreTrainedTokenizerBase",
    turns: list[dict[str, str]],
    plain: str,
    ending: str = "",
    **options: bool,
) -> tuple[int, ...]:
    """The token ids of a conversation that open the assistant's turn; `options` are for the chat template.

    `plain` is the conversation as one text. It is the user turn if the template has no system role, and, with `ending`
    after it, the prompt if there is no template.
    """
    text = _render(tokenizer, turns, plain, options) if tokenizer.chat_template else plain + ending
    # A chat template writes its own special tokens; plain text gets the tokenizer's.
    ids: Any = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tuple(ids)


def _render(
    tokenizer: "PreTrainedTokenizerBase", turns: list[dict[str, str]], plain: str, options: dict[str, bool]
) -> str:
    from jinja2.exceptions import TemplateError

    options = {"tokenize": False, "add_generation_prompt": True, **options}
    try:
        return str(tokenizer.apply_chat_template(turns, **options))
    except TemplateError:
        return str(tokenizer.apply_chat_template([{"role": "user", "content": plain}], **options))


def require_room(prompt: tuple[int, ...], context: int | None, question_id: str) -> None:
    """Refuse a prompt that fills the model's context."""
    if context is not None and len(prompt) >= context:
        raise InputError(
            f"question '{question_id}': its prompt has {len(prompt)} tokens and the model's context holds {context};"
            " shorten the question or take a model with a longer context"
        )
