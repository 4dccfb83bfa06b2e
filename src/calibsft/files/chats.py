"""Chat logs: JSONL whose rows have `messages`, turns with a role and a content, and no `response`.

The last turn of the assistant is the response, the turn of the user before it the question. Without a column `question_id`
all turns before the response identify the question. Other columns stay as they are. Tools and pictures are left out.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.files import jsonl
from calibsft.files.dialect import Dialect
from calibsft.files.stated import stated_columns

ASSISTANT, USER = "assistant", "user"
# What servers that take the reasoning out of the text call it.
REASONING = ("reasoning_content", "reasoning")


def recognises(path: Path) -> bool:
    """Whether the first row of a JSONL file is a conversation without a response of its own."""
    if not jsonl.is_name(path.name):
        return False
    first = jsonl.first_record(path)
    return first is not None and "response" not in first and is_conversation(first.get("messages"))


def is_conversation(messages: Any) -> bool:
    """Whether these are turns with roles."""
    return isinstance(messages, list) and bool(messages) and all(map(_is_turn, messages))


def records(path: Path, dialect: Dialect) -> Iterator[dict[str, Any]]:
    """Each conversation as a row."""
    for row, record in enumerate(jsonl.every_record(path), start=1):
        turns = record.pop("messages", None)
        if not is_conversation(turns) or (last := last_turn(turns, ASSISTANT)) is None:
            raise InputError(
                f"{path}, row {row}: 'messages' holds no turn of the assistant; write turns with role and content, or remove"
                " the row"
            )
        before = turns[:last]
        question = last_turn(before, USER)
        named = {
            "question": "" if question is None else text_of(before[question]),
            "question_id": question_key(before),
        }
        yield {**named, **record, **stated_columns(record, text_of(turns[last]), dialect)}


def last_turn(turns: list[Mapping[str, Any]], role: str) -> int | None:
    """The place of the last turn of a role."""
    return next((place for place in reversed(range(len(turns))) if turns[place]["role"] == role), None)


def text_of(turn: Mapping[str, Any]) -> str:
    """What a turn says: its text, or the texts of its parts; reasoning that stands apart comes first, as `<think>`."""
    content = turn.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    pieces = [part for part in parts if isinstance(part, Mapping)]
    apart = [turn.get(name) for name in REASONING] + [part.get("reasoning") for part in pieces]
    thoughts = [text for text in apart if isinstance(text, str)]
    texts = (part.get("text") for part in pieces)
    text = "".join(text for text in texts if isinstance(text, str))
    return f"<think>{thoughts[0]}</think>{text}" if thoughts else text


def question_key(turns: list[Mapping[str, Any]]) -> str:
    """What identifies a question that is asked by these turns."""
    asked = json.dumps([(turn["role"], text_of(turn)) for turn in turns])
    return blake2b(asked.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _is_turn(turn: Any) -> bool:
    return isinstance(turn, Mapping) and isinstance(turn.get("role"), str)
