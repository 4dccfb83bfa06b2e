"""Options that several commands share, and printing of results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from calibsft.files.dialect import COLUMNS_HELP, SCALE_HELP
from calibsft.text import printable

Set = Annotated[
    list[str] | None,
    Option(
        "--set", metavar="KEY=VALUE", help="Override a recipe key, e.g. --set rollout.samples=8. Repeatable."
    ),
]
StageSet = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting by its key, e.g. --set lora.rank=16; a list is written [a, b]. Repeatable.",
    ),
]
Fresh = Annotated[
    bool, Option("--fresh", help="Start over what was made under other settings, instead of refusing.")
]
HashCheck = Annotated[
    bool, Option(help="Refuse files of finished stages whose hashes differ from their manifests.")
]
Out = Annotated[Path, Option(help="Folder to write; an unfinished one is resumed.")]
AsJson = Annotated[
    bool, Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]
Malformed = Annotated[
    str | None,
    Option(
        help="Responses without a readable confidence: error, drop, or counted (as 0; in decisions, as never confident)."
        " Default: counted, with a warning."
    ),
]
Conditions = Annotated[
    list[str] | None,
    Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Take only the rows where a column has this value, e.g. --where model=small. Repeatable: several values of one"
        " column are alternatives.",
    ),
]
Columns = Annotated[list[str] | None, Option("--columns", metavar="OURS=THEIRS", help=COLUMNS_HELP)]
ScaleName = Annotated[str | None, Option("--scale", help=SCALE_HELP)]
By = Annotated[str | None, Option(metavar="COLUMN", help="A result for every value of this column.")]


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found, in words and as data."""

    lines: Sequence[str]
    data: dict[str, Any]


def print_results(results: Mapping[str, Result], by: str | None, as_json: bool) -> None:
    """Print the only result, or one under a heading for every value of the column `by`."""
    found = {value: result.data for value, result in results.items()}
    lines: list[str] = []
    for value, result in results.items():
        lines += [] if by is None else [*([""] if lines else []), f"{by} = {value}", ""]
        lines += result.lines
    print_lines(lines, found[""] if by is None else {"by": by, "results": found}, as_json)


def print_lines(lines: Sequence[str], data: Any = None, as_json: bool = False) -> None:
    """Print a result as JSON or as lines; nothing if there are no lines."""
    text = json.dumps(data, indent=2) if as_json else "\n".join(printable(line) for line in lines)
    if text:
        print(text)
