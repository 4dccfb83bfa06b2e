"""From question to prompt tokens, with the model's own chat template.

Templates without a system role get the system prompt at the head of the user turn; tokenizers without a
template get plain text. Does not truncate: a prompt that leaves no room for an answer is refused.
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
    conversation = messages(question, confidence_format)
    text = _render(tokenizer, conversation) if tokenizer.chat_template else _plain(conversation)
    # A chat template writes its own special tokens; plain text gets the tokenizer's.
    ids: Any = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tuple(ids)


def _render(tokenizer: "PreTrainedTokenizerBase", conversation: list[dict[str, str]]) -> str:
    from jinja2.exceptions import TemplateError

    try:
        return str(tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True))
    except TemplateError:
        merged = "".join(turn["content"] for turn in conversation)
        alone = [{"role": "user", "content": merged}]
        return str(tokenizer.apply_chat_template(alone, tokenize=False, add_generation_prompt=True))


def _plain(conversation: list[dict[str, str]]) -> str:
    return "".join(turn["content"] for turn in conversation)


def require_room(prompt: tuple[int, ...], context: int | None, question_id: str) -> None:
    """Refuse a prompt that fills the model's context."""
    if context is not None and len(prompt) >= context:
        raise InputError(
            f"question '{question_id}': its prompt has {len(prompt)} tokens and the model's context holds {context};"
            " shorten the question or take a model with a longer context"
        )
