"""Options that several commands share, and printing of results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from calibsft.files.dialect import COLUMNS_HELP, SCALE_HELP
from calibsft.text import printable

# Panels of help.
COMMON = "Common options"
READING = "Reading files"

Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the recipe, e.g. --set rollout.samples=8. Repeatable.",
        rich_help_panel=COMMON,
    ),
]
StageSet = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting by its key in a recipe, e.g. --set lora.rank=16; a list is written [a, b]. Repeatable.",
        rich_help_panel=COMMON,
    ),
]
Fresh = Annotated[
    bool,
    Option(
        "--fresh",
        help="Start again a stage that was begun with other settings; without this option it is refused.",
        rich_help_panel=COMMON,
    ),
]
HashCheck = Annotated[
    bool,
    Option(
        help="Refuse files that changed after their stage was finished. [default: yes]",
        show_default=False,
        rich_help_panel=COMMON,
    ),
]
Out = Annotated[Path, Option(metavar="FOLDER", help="Folder to write; an unfinished one is resumed.")]
AsJson = Annotated[
    bool,
    Option(
        "--json",
        help="Print the result as JSON on standard output; messages go to standard error.",
        rich_help_panel=COMMON,
    ),
]
Malformed = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        help="Responses without a readable confidence: error (refuse the file), drop (leave them out) or counted (as"
        " confidence 0; in decisions, as below every threshold). Default: counted, with a warning.",
        rich_help_panel=READING,
    ),
]
Conditions = Annotated[
    list[str] | None,
    Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Use only the rows where a column has this value, e.g. --where model=small. Repeatable; several values of one"
        " column are alternatives.",
        rich_help_panel=READING,
    ),
]
Columns = Annotated[
    list[str] | None,
    Option("--columns", metavar="OURS=THEIRS", help=COLUMNS_HELP, rich_help_panel=READING),
]
ScaleName = Annotated[
    str | None, Option("--scale", metavar="SCALE", help=SCALE_HELP, rich_help_panel=READING)
]
By = Annotated[
    str | None,
    Option(metavar="COLUMN", help="Give one result for every value of this column.", rich_help_panel=READING),
]


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
