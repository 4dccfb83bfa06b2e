"""Read the worked examples of a prompt from a user's file.

A model imitates what it is shown, so every example must be well formed. Whether its answer is right is not checked.
"""

from pathlib import Path

from calibsft.errors import InputError
from calibsft.files.cells import text_column
from calibsft.files.reading import read_table
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.responses.prompts import Shot


def read_shots(path: Path, confidence_format: Format) -> tuple[Shot, ...]:
    """The examples in a CSV, JSONL or Parquet file with question and response, in its order."""
    frame = read_table(path, ("question", "response"))
    columns = (text_column(path, frame, name) for name in ("question", "response"))
    shots = tuple(Shot(question, response) for question, response in zip(*columns, strict=True))
    for row, shot in enumerate(shots, start=1):
        parsed = parse(shot.response, confidence_format)
        if not parsed.ok:
            raise InputError(
                f"{path}, row {row}: the response is not well formed as '{confidence_format.name}' ({parsed.reason.value});"
                " correct it, or set the format that it is written in"
            )
    return shots
