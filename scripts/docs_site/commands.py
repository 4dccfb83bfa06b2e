"""The reference of the command line: every command with its arguments and options, as `--help` has them."""

import inspect
from typing import Any

import typer
from cells import cell
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from calibsft.cli.app import app

PLACE = "reference/commands.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PLACE, content=page()))
    return files


def page() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="calibsft")
    commands = {name: command for name, command in group.commands.items() if not command.hidden}
    rows = [f"| [`{name}`](#calibsft-{name}) | {summary(command)} |" for name, command in commands.items()]
    parts = [section(name, command, context) for name, command in commands.items()]
    head = ["# Commands", "", "`calibsft COMMAND --help` shows the same in a terminal.", ""]
    own = parameters(group, context)
    return "\n".join(
        [*head, "| command | |", "|---|---|", *rows, "", "Before the command:", "", *own, "", *parts]
    )


def section(name: str, command: Any, parent: typer.Context) -> str:
    """One command: what it is for, how it is written, and what it takes."""
    context = typer.Context(command, info_name=name, parent=parent)
    usage = " ".join([f"calibsft {name}", *command.collect_usage_pieces(context)])
    words = inspect.cleandoc(command.help or "")
    return "\n".join(
        [
            f"## calibsft {name}",
            "",
            words,
            "",
            f"```text\n{usage}\n```",
            "",
            *parameters(command, context),
            "",
        ]
    )


def parameters(command: Any, context: typer.Context) -> list[str]:
    """A table of the arguments and options."""
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [f"| {cell(code(names))} | {cell(words)} |" for names, words in filter(None, records)]
    return ["| option | |", "|---|---|", *rows]


def code(text: str) -> str:
    return f"`{text}`"


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return cell(inspect.cleandoc(command.help or "").split("\n\n")[0])
