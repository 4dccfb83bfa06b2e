"""How settings name a confidence format, and the arguments of a chat template."""

from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from calibsft.errors import InputError
from calibsft.responses.formats import FORMATS, get_format
from calibsft.settings import Metavar

DEFAULT_FORMAT = next(iter(FORMATS))
FormatName = Annotated[
    str,
    AfterValidator(lambda name: get_format(name).name),
    Metavar("FORMAT"),
    Field(description=f"how responses write their confidence: {', '.join(FORMATS)}"),
]

# Arguments of the tokenizer's own function, and what that function gives the template.
RESERVED = frozenset(
    {
        "conversation", "conversations", "messages", "tools", "documents", "chat_template", "add_generation_prompt",
        "continue_final_message", "tokenize", "sanitize_control_tokens", "padding", "truncation", "max_length",
        "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs",
    }
)  # fmt: skip


def _plain_arguments(given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name in RESERVED:
            raise InputError(f"template.{name} is set by calibsft itself, for every prompt; leave it out")
        if not isinstance(value, bool | int | float | str) or (
            isinstance(value, float) and not isfinite(value)
        ):
            raise InputError(f"template.{name} is not true, false, a number or a text; write one of these")
    return given


Template = Annotated[
    dict[str, Any],
    AfterValidator(_plain_arguments),
    Field(
        description="argument of the model's chat template, e.g. enable_thinking=false; repeatable",
        examples=["enable_thinking=false"],
    ),
]
