"""Help: a way for newcomers, one sentence and examples for each command, and a word for every value."""

import re
import shlex
from collections.abc import Iterator
from functools import cache

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from calibsft.cli import app as frame
from calibsft.cli.serve import GatewayOptions
from calibsft.gateway.server import Limits
from calibsft.stages import STAGES

BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# What is left of 80 columns beside the margins of a code block.
WIDTH = 76


@cache
def group() -> TyperGroup:
    found = typer.main.get_command(frame.app)
    assert isinstance(found, TyperGroup)
    return found


def examples(text: str) -> list[str]:
    return [line.strip() for block in BLOCK.findall(text) for line in block.splitlines() if line.strip()]


def all_examples() -> Iterator[str]:
    yield from examples(group().help or "")
    for command in group().commands.values():
        yield from examples(command.help or "")


def help_of(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The help of a command in a terminal of 80 columns."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    group().commands[name].main(["--help"], prog_name=f"calibsft {name}", standalone_mode=False)
    return capsys.readouterr().out


def test_every_stage_is_a_command() -> None:
    assert set(STAGES) <= set(frame.COMMANDS)


@pytest.mark.parametrize("name", frame.COMMANDS)
def test_help_begins_with_one_sentence_and_its_own_example(name: str) -> None:
    first, second, *_ = (group().commands[name].help or "").split("\n\n")
    sentence = " ".join(first.split())
    assert sentence.endswith(".") and "? " not in sentence and len(sentence) <= 130
    assert second.startswith("```sh")
    assert any(re.match(rf"(accelerate launch -m )?calibsft {name}( |$)", line) for line in examples(second))


def test_examples_are_commands_that_parse() -> None:
    lines = list(all_examples())
    assert len(lines) > len(frame.COMMANDS)
    for line in lines:
        words = shlex.split(line, comments=True)
        words = words[words.index("calibsft") + 1 :]
        if words[0] != "COMMAND":
            group().commands[words[0]].make_context(words[0], [*words[1:]])


def test_examples_fit_into_narrow_terminals() -> None:
    assert not [line for line in all_examples() if len(line) > WIDTH]


@pytest.mark.parametrize("name", frame.COMMANDS)
def test_help_names_every_option_and_value_in_full(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = help_of(name, monkeypatch, capsys)
    command = group().commands[name]
    assert isinstance(command, TyperCommand)
    for parameter in command.params:
        if parameter.opts[0].startswith("--"):
            assert re.search(rf"{parameter.opts[0]}[ ,/]", shown), parameter.opts
            assert parameter.help
    assert not re.search(r"[a-z/]…", shown), "a word is cut"
    # Names of Python's types, what takes no method, and defaults as typer decorates them.
    assert not re.search(r"<(str|bool|int|float|path|list)|\(\)|default: \(", shown)


def test_a_default_of_some_methods_alone_is_named_with_them() -> None:
    steps = next(option for option in STAGES["rl"].options() if option.flags == ("--steps",))
    assert steps.default == "160; redoubt: 80"


def test_help_shows_the_numbers_that_an_option_takes() -> None:
    shown = {option.name: option.metavar for option in STAGES["rl"].options()}
    assert shown["group_size"] == "INT [x>=2]" and shown["clip_low"] == "FLOAT [0<x<1]"
    assert shown["final_rate"] == "FLOAT [0<=x<=1]" and shown["servers_weights"] == "file|nccl"


def test_options_of_the_gateway_become_its_limits() -> None:
    options = GatewayOptions(timeout=1, retries=3, concurrency=4, queue=5, max_body=6, client_timeout=7)
    assert options.limits() == Limits(1, 3, 4, 5, 6 * 1024, 7)
