"""A command for every stage, generated from the stage's settings: options, defaults, help.

The options that all of them have (--out, --fresh, --json and others) are added here. Contains no default and no rule of a
stage.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from calibsft.cli.options import READING, AsJson, Fresh, HashCheck, Out, StageSet, print_lines
from calibsft.progress import FIRST_PROCESS
from calibsft.settings.options import Option
from calibsft.stages import Stage

HUB = "Upload to the Hub"
# Panels of options outside all sections; the others are in the first panel.
PANELS = {"push_to_hub": HUB, "public": HUB, "columns": READING, "scale": READING}


def stage_command(kind: type[Stage]) -> Callable[..., None]:
    """The command that performs one stage."""

    def command(
        *,
        out: Out,
        overrides: StageSet = None,
        fresh: Fresh = False,
        hash_check: HashCheck = True,
        as_json: AsJson = False,
        **given: Any,
    ) -> None:
        stage = kind.of(given, overrides or [])
        stage.perform(out, fresh=fresh, hash_check=hash_check)
        if FIRST_PROCESS:
            print_lines([] if as_json else stage.lines(out), stage.results(out) if as_json else {}, as_json)

    command.__doc__ = kind.__doc__
    return with_options(command, kind.options())


def with_options(command: Callable[..., None], options: list[Option]) -> Callable[..., None]:
    """`command` with a signature that names these options instead of `**given`."""
    return _signed(command, [*map(_parameter, options), *_own(command)])


def with_fields(command: Callable[..., None], fields: type) -> Callable[..., None]:
    """`command` with the fields of a dataclass, each annotated with its option, instead of `**given`."""
    return _signed(command, [*_own(command), *inspect.signature(fields).parameters.values()])


def _own(command: Callable[..., None]) -> list[inspect.Parameter]:
    """The parameters that the command itself names."""
    return [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]


def _signed(command: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """`command` with the signature that typer reads; options without a default come first."""
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    parameters.sort(key=lambda p: p.default is not p.empty)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(option: Option) -> inspect.Parameter:
    must = option.required and not option.alternative
    kind = option.type if must else option.type | None
    sentence = _sentence(option)
    declared: Any = typer.Argument(help=sentence)
    if option.flags:
        declared = typer.Option(
            *(f"{flag}/--no-{flag[2:]}" if option.type is bool else flag for flag in option.flags),
            help=sentence,
            metavar=option.metavar,
            show_default=False,
            rich_help_panel=_panel(option),
        )
    parameter = inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, declared]
    )
    return parameter if must or not option.flags else parameter.replace(default=None)


def _sentence(option: Option) -> str:
    """The help of an option, which may be a line and a list, with the default at the end of the line."""
    line, *items = option.help.splitlines()
    end = "" if line.endswith((".", "…", ":")) else "."
    default = "" if option.default in ("", "none") else f" [default: {option.default}]"
    return "\n".join([line[:1].upper() + line[1:] + end + default, *items])


def _panel(option: Option) -> str | None:
    if not option.title:
        return PANELS.get(option.name)
    return f"{option.title} (in a recipe: {option.section}.KEY)"
