"""Options and steps that several commands share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.text import printable

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a recipe key, e.g. --set rollout.samples=8. Repeatable."
    ),
]
StageSet = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting by its key, e.g. --set lora.rank=16; a list is written [a, b]. Repeatable.",
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start over what was made under other settings, instead of refusing.")
]
HashCheck = Annotated[
    bool,
    typer.Option(
        "--hash-check/--no-hash-check",
        help="Refuse to read files of finished stages that are not as their manifests say.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything random in this command.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write; an unfinished one is resumed.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]
Malformed = Annotated[
    str | None,
    typer.Option(
        "--malformed",
        help="Responses without a readable confidence: error, drop, or counted (as 0; in decisions, as never confident)."
        " Default: counted, with a warning.",
    ),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Take only the rows where a column has this value, e.g. --where model=small. Repeatable: several values of one"
        " column are alternatives.",
    ),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="COLUMN", help="A result for every value of this column.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a policy that is there already.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability that the guarantee does not hold.")]
Procedure = Annotated[
    str,
    typer.Option(
        "--procedure",
        help="union, the paper's; or fixed-sequence, which certifies more with the same guarantee.",
    ),
]
PerQuestion = Annotated[
    str,
    typer.Option(
        "--per-question",
        help="Where questions have several responses: calibrate on a random one, or on the first of the file.",
    ),
]
Splits = Annotated[
    int,
    typer.Option(
        "--splits", min=0, help="Random halves on which to try it: calibrate on one, count on the other."
    ),
]
PolicyOut = Annotated[
    Path, typer.Option("--policy", help="Policy file to write, which `calibsft serve` acts on.")
]
LocalModel = Annotated[
    str | None,
    typer.Option("--model", help="The model's name, for the policy; an evaluation knows its own."),
]
LocalFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="How the model writes confidences, for the policy: probability, probability-0.05, integer or linguistic."
        " An evaluation knows its own; else probability.",
    ),
]
OnLocalFailure = Annotated[
    str | None,
    typer.Option(
        "--on-local-failure", help="What a gateway does when the local model fails: defer or error."
    ),
]


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found, in words and as data."""

    lines: Sequence[str]
    data: dict[str, Any]


def print_results(results: Mapping[str, Result], by: str | None, as_json: bool) -> None:
    """Results on standard output: the only one, or that of every value of the column `by` under its name."""
    if as_json:
        found = {value: result.data for value, result in results.items()}
        print(json.dumps(found[""] if by is None else {"by": by, "results": found}, indent=2))
        return
    for number, (value, result) in enumerate(results.items()):
        title = [] if by is None else [*([""] if number else []), f"{by} = {value}", ""]
        print("\n".join(printable(line) for line in [*title, *result.lines]))


def print_scores(scores: dict[str, Any], as_json: bool) -> None:
    """Scores on standard output, as JSON or as aligned lines."""
    from calibsft.report.terminal import evaluation_lines

    print_lines([] if as_json else evaluation_lines(scores), scores, as_json)


def print_lines(lines: Sequence[str], data: dict[str, Any], as_json: bool) -> None:
    """A result on standard output, as JSON or in words."""
    text = json.dumps(data, indent=2) if as_json else "\n".join(printable(line) for line in lines)
    if text:
        print(text)
