"""The logs of Inspect: `.eval` archives and `.json` files, with the scores of their samples.

A sample is a row: its output is the response, its target the gold, its task the dataset, its epochs are the samples of a question.
Each scorer gives a column of its name; a single one also gives `correct`: partial credit is neither right nor
wrong. A sample without a score is unscored. Archives are unpacked within limits, and nothing in them is a path here.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.files import chats, jsonl
from calibsft.files.dialect import Dialect
from calibsft.files.packed import most_unpacked, refuse_growth
from calibsft.files.stated import stated_columns

HEADERS = ("header.json", "_journal/start.json")
SAMPLES = "samples/"
# How a log as JSON begins.
BEGINNING = re.compile(rb'\s*\{\s*"version"\s*:\s*[0-9]+\s*,\s*"status"\s*:\s*"[a-z]+"\s*,\s*"eval"\s*:')
BEGINNING_BYTES = 1 << 10
# What Python's zipfile reads by itself, and what newer logs are packed with.
PLAIN, ZSTANDARD = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), 93
LOCAL_HEADER = 30
# What Inspect writes for its own grades.
GRADES = {"C": "true", "I": "false", "N": "false"}
UNFINISHED = ("max_tokens", "model_length", "length")


def recognises(path: Path) -> bool:
    """Whether this is an archive with the header of a log, or JSON that begins like one."""
    if path.suffix.lower() == ".eval":
        return zipfile.is_zipfile(path)
    if path.suffix.lower() != ".json":
        return False
    with path.open("rb") as file:
        return BEGINNING.match(file.read(BEGINNING_BYTES)) is not None


def records(path: Path, dialect: Dialect) -> Iterator[dict[str, Any]]:
    """Each sample as a row."""
    header, samples = _archive(path) if path.suffix.lower() == ".eval" else _whole(path)
    spec = header.get("eval")
    known = spec if isinstance(spec, Mapping) else {}
    for row, sample in enumerate(samples, start=1):
        if not isinstance(sample, Mapping):
            raise InputError(f"{path}, row {row}: not a sample of Inspect; write the log again")
        yield jsonl.repaired(_row(sample, known, dialect))


def _row(sample: Mapping[str, Any], known: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    output = sample.get("output")
    choice = _first(output.get("choices") if isinstance(output, Mapping) else None)
    scores = sample.get("scores")
    values = _values(scores if isinstance(scores, Mapping) else {})
    asked = sample.get("input")
    epoch = sample.get("epoch")
    found = {
        "dataset": _text(known.get("task")),
        "question_id": _text(sample.get("id")),
        "sample": epoch - 1 if isinstance(epoch, int) else None,
        "question": _question(asked) if isinstance(asked, list) else _text(asked),
        "gold": _golds(sample.get("target")),
        "model": _text(known.get("model")),
        "finished": choice.get("stop_reason") not in UNFINISHED,
    }
    if len(values) == 1:
        [(name, value)] = values.items()
        found |= {"correct": GRADES.get(value or "", value), "grade": value}
        score = scores.get(name) if isinstance(scores, Mapping) else None
        found["answer"] = _text(score.get("answer")) if isinstance(score, Mapping) else None
    row = {**values, **found}
    text = chats.text_of(message) if isinstance(message := choice.get("message"), Mapping) else ""
    # Samples without a score have no such columns of their own, and stand beside others that have.
    row = {name: value for name, value in row.items() if value is not None}
    return {**row, **stated_columns(row, text, dialect, finished=found["finished"])}


def _values(scores: Mapping[str, Any]) -> dict[str, str | None]:
    """What the scorers say, by their names; a scorer with several values has as many columns."""
    found: dict[str, str | None] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, Mapping) else None
        parts = (
            {f"{name}.{key}": part for key, part in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
        found |= {key: _text(part) for key, part in parts.items()}
    return found


def _question(turns: list[Any]) -> str:
    place = chats.last_turn(turns, chats.USER) if chats.is_conversation(turns) else None
    return "" if place is None else chats.text_of(turns[place])


def _golds(target: Any) -> Any:
    return [_text(one) for one in target] if isinstance(target, list) else _text(target)


def _first(values: Any) -> Mapping[str, Any]:
    found = values[0] if isinstance(values, list) and values else {}
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str | None:
    """A value as text; None for one that says nothing."""
    if value is None or value != value:  # Inspect writes NaN for a sample that it could not score
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _whole(path: Path) -> tuple[Mapping[str, Any], Iterator[Any]]:
    """The header and the samples of a log as JSON."""
    log = _decoded(path, path.read_bytes())
    return log, iter(log.get("samples") or ())


def _archive(path: Path) -> tuple[Mapping[str, Any], Iterator[Any]]:
    """The header of an archive, and its samples one by one."""
    with zipfile.ZipFile(path) as archive:
        # A member that was written again stands there twice, and the last one counts.
        members = {member.filename: member for member in archive.infolist()}
    if sum(member.file_size for member in members.values()) > most_unpacked(path):
        refuse_growth(path)
    first = next((members[name] for name in HEADERS if name in members), None)
    if first is None:
        raise InputError(
            f"{path}: an archive without {HEADERS[0]}, so no log of Inspect; write the log again"
        )
    names = sorted(name for name in members if name.startswith(SAMPLES) and name.endswith(".json"))
    samples = (_decoded(path, _unpacked(path, members[name])) for name in names)
    return _decoded(path, _unpacked(path, first)), samples


def _unpacked(path: Path, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, which may be packed with Zstandard: Python's own module learns that only in 3.14."""
    if member.compress_type in PLAIN:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    if member.compress_type != ZSTANDARD:
        raise InputError(
            f"{path}: packed in an unknown way; write the log again as JSON (inspect log convert)"
        )
    from pyarrow import BufferReader, CompressedInputStream

    with path.open("rb") as file:
        file.seek(member.header_offset)
        local = file.read(LOCAL_HEADER)
        file.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), 1)
        packed = file.read(member.compress_size)
    found: bytes = CompressedInputStream(BufferReader(packed), "zstd").read(member.file_size + 1)
    if len(found) > member.file_size:
        refuse_growth(path)
    return found


def _decoded(path: Path, data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"{path}: not a log of Inspect that can be read; write it again as JSON (inspect log convert)"
        )
    return found
