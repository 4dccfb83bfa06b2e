"""How help shows parameters: an option has a word for its value, a flag and an argument have none.

The name of an argument says what it is; a flag takes no value.
"""

from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

WORDS = {int: "INT", float: "FLOAT", Path: "PATH"}
TEXT = "TEXT"
# How the help of an option ends that is off unless it is given.
OFF = "[default: no]"
Command = TypeVar("Command", TyperCommand, TyperGroup)


class HelpfulCommand(TyperCommand):
    """A command whose help shows its parameters in this way."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperCommand.format_help(_shown(self, ctx), ctx, formatter)


class HelpfulGroup(TyperGroup):
    """A group of commands whose help shows its parameters in this way."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperGroup.format_help(_shown(self, ctx), ctx, formatter)


def _shown(command: Command, ctx: Any) -> Command:
    """A copy of a command for its help alone."""
    shown = copy(command)
    shown.params = [_in_words(copy(parameter)) for parameter in command.get_params(ctx)]
    shown.add_help_option = False  # it is among the parameters
    return shown


def _in_words(parameter: Any) -> Any:
    if isinstance(parameter, TyperArgument):
        parameter.display_type = _no_type  # type: ignore[method-assign]
    elif isinstance(parameter, TyperOption) and parameter.is_flag:
        # One column for both names, and the name that turns off only for what is on.
        names = [*parameter.opts, *([] if _is_off(parameter) else parameter.secondary_opts)]
        parameter.metavar, parameter.opts, parameter.secondary_opts = "", ["/".join(names)], []
    elif isinstance(parameter, TyperOption) and parameter.metavar is None:
        parameter.metavar = WORDS.get(parameter.type_descriptor.annotation, TEXT)
    return parameter


def _is_off(flag: TyperOption) -> bool:
    return (flag.help or "").endswith(OFF)


def _no_type(ctx: Any) -> str:
    return ""
