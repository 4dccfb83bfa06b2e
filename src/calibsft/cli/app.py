"""The list of commands, and how failures are shown.

Results go to standard output, everything else to standard error. Bad input ends with one sentence and exit
code 2; a traceback appears only with --debug.
"""

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from calibsft.cli.certify import certify
from calibsft.cli.decision_command import DecisionOptions
from calibsft.cli.diagnose import diagnose, sampling_options
from calibsft.cli.doctor import doctor
from calibsft.cli.export import export
from calibsft.cli.export_policy import export_policy
from calibsft.cli.help import HelpfulCommand, HelpfulGroup
from calibsft.cli.launched_stage import launched_stage
from calibsft.cli.ls import ls
from calibsft.cli.merge import merge
from calibsft.cli.monitor import monitor
from calibsft.cli.plot import plot
from calibsft.cli.policy_server import policy_server
from calibsft.cli.report import report
from calibsft.cli.reproduce import reproduce
from calibsft.cli.route import route
from calibsft.cli.run import run
from calibsft.cli.score import score
from calibsft.cli.select import select
from calibsft.cli.serve import GatewayOptions, serve
from calibsft.cli.stage_command import stage_command, with_fields, with_options
from calibsft.cli.streams import discard_output, prepare_streams
from calibsft.cli.validate import validate
from calibsft.errors import NO_ROOM, InputError, system_refusal
from calibsft.interrupts import INTERRUPTED
from calibsft.stages import STAGES
from calibsft.text import printable

STAGE_COMMANDS = {name: stage_command(stage) for name, stage in STAGES.items()}
# In the order of help, with the titles of its panels.
PANELS: dict[str, dict[str, Callable[..., Any]]] = {
    "Begin": {"run": run, "ls": ls, "doctor": doctor},
    "Make training data": {
        **{name: STAGE_COMMANDS[name] for name in ("rollout", "verify", "evidence", "build")},
        "merge": merge,
        "validate": validate,
    },
    "Train": {
        **{name: STAGE_COMMANDS[name] for name in ("sft", "rl", "base")},
        "policy-server": policy_server,
        "export": export,
    },
    "Evaluate": {
        "eval": STAGE_COMMANDS["eval"],
        "score": score,
        "diagnose": with_options(diagnose, sampling_options()),
        "prior": STAGE_COMMANDS["prior"],
    },
    "Decide by confidence": {
        "certify": with_fields(certify, DecisionOptions),
        "route": with_fields(route, DecisionOptions),
        "select": select,
        "serve": with_fields(serve, GatewayOptions),
        "monitor": monitor,
        "export-policy": export_policy,
    },
    "Look at results": {"report": report, "plot": plot, "reproduce": reproduce},
}
COMMANDS = {name: command for panel in PANELS.values() for name, command in panel.items()}

app = typer.Typer(
    name="calibsft",
    cls=HelpfulGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""Teach a language model to say how sure it is, and to be right about that.

    ```sh
    calibsft run tiny              # everything on a tiny model, without a GPU
    calibsft score responses.csv   # metrics of responses that you already have
    calibsft COMMAND --help        # examples and options of a command
    ```
    """,
)
for title, panel in PANELS.items():
    for name, command in panel.items():
        app.command(name, cls=HelpfulCommand, rich_help_panel=title)(command)
# For the launchers of `calibsft run` alone.
app.command("launched-stage", hidden=True)(launched_stage)


def show_version(asked: bool) -> None:
    if asked:
        from calibsft import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback when something fails.")] = False,
) -> None:
    """Options before the command; `main` reads --debug itself, because it handles failures."""


def main() -> None:
    """Run a command; print a failure as one sentence."""
    prepare_streams()
    debug = "--debug" in sys.argv
    try:
        _refuse_undecodable(sys.argv)
        # Without standalone mode typer returns the exit code of --help, --version and an interrupt.
        code = app(prog_name="calibsft", standalone_mode=False) or 0
        sys.stdout.flush()
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        if str(error):  # an empty message: typer has printed the help
            _print_failure(_usage(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of the output has closed it
        discard_output()
        code = 1
    except Exception as error:
        if debug:
            raise
        code, sentence = _explained(error)
        _print_failure(f"calibsft: {sentence}")
    if code == INTERRUPTED:  # typer turns an interrupt into this code
        raise KeyboardInterrupt
    _end(code)


def _explained(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence of a failure: 2 if the user can fix it, 1 for a bug."""
    if isinstance(error, InputError):
        return 2, str(error)
    refusal = system_refusal(error)
    if refusal is not None and refusal.errno in NO_ROOM:
        written = f"{refusal.filename or 'the output'}: cannot be written ({refusal.strerror})"
        return 2, f"{written}; free some space and run the same command again"
    if refusal is not None and refusal.filename is not None:
        return 2, f"{refusal.filename}: {refusal.strerror}; check the path and who may read and write there"
    return 1, f"unexpected {type(error).__name__}: {error}; run with calibsft --debug … for the traceback"


def _refuse_undecodable(words: list[str]) -> None:
    """Refuse names that are no text: such files can be opened, but not recorded, shown or read by every library."""
    for word in words:
        if not word.isascii() and any("\udc80" <= char <= "\udcff" for char in word):
            raise InputError(f"{word!a}: not a name in the terminal's encoding; rename the file or folder")


def _end(code: int) -> NoReturn:
    """End the process; in a process group, at once and without cleaning up.

    Connections to other processes have threads in compiled code. Destroying those sometimes aborts the process after all
    work is done, which a launcher would report as a failure.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        sys.exit(code)
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _print_failure(text: str) -> None:
    """Print a failure, in whichever process it happened."""
    discard_output()
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
    discard_output()


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the command's arguments, and where its help is."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "calibsft"
    return f"calibsft: {error.format_message().rstrip('.')}; see {command} --help"
