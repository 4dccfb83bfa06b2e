"""What is checked of a block that is not run: its syntax, and that what it names exists."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
import yaml

from calibsft.cli.app import app
from calibsft.recipe import load_recipe
from doc_pages import ROOT, Block, commands
from doc_tables import EXTRAS, FILE, MAKE, NO_RECIPE, PARSED, SHOWN


def parsed_options(name: str, words: list[str]) -> dict[str, Any]:
    """The options of one of our commands; refuses unknown ones and values of another type."""
    group = typer.main.get_command(app)
    found = group.commands.get(name)  # type: ignore[attr-defined]
    assert found, f"there is no command calibsft {name}"
    # parses, and runs nothing
    return dict(found.make_context(name, list(words)).params)


def parsed(text: str) -> None:
    """A `calibsft` command, perhaps behind a launcher, is one that our command line takes."""
    words = shlex.split(text, comments=True)
    words = words[words.index("calibsft") + 1 :]
    parsed_options(words[0], words[1:])


def makes(text: str) -> None:
    """The targets of `make` exist."""
    words = shlex.split(text, comments=True)
    done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def extras(text: str) -> None:
    """Extras of this package that are to be installed exist."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for names in re.findall(r"(?:calibsft|\.)\[([\w,]+)\]", text):
        assert set(names.split(",")) <= known.keys(), f"there is no extra {names}"


def file(text: str) -> None:
    """The program is a file of this repository, and may be run."""
    program = ROOT / shlex.split(text)[0]
    assert program.is_file() and program.stat().st_mode & 0o100, f"there is no program {program}"


def shown(text: str) -> None:
    """A command of another program: a shell understands it."""
    subprocess.run(["bash", "-n", "-c", text], check=True, capture_output=True)


def script(block: Block) -> None:
    """A file for a batch system: a shell understands it, and it starts commands that exist."""
    shown(block.text)
    ours = [command.text for command in commands(block) if command.text.startswith("calibsft ")]
    assert ours, f"{block.place}: starts nothing of ours"
    for text in ours:
        parsed(text.replace('"$SLURM_ARRAY_TASK_ID/8"', "1/8"))


def recipe(block: Block) -> None:
    """Part of a recipe that is complete with a name."""
    given = yaml.safe_load(block.text)
    if any(rule.fits(block.text) for rule in NO_RECIPE):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "recipe.yaml")
        path.write_text(yaml.safe_dump({"name": "shown", **given}))
        load_recipe(str(path), [])


COMMANDS: dict[str, Callable[[str], None]] = {
    PARSED: parsed,
    MAKE: makes,
    EXTRAS: extras,
    FILE: file,
    SHOWN: shown,
}
DATA: dict[str, Callable[[Block], object]] = {
    "yaml": recipe,
    "json": lambda block: json.loads(block.text),
    "toml": lambda block: tomllib.loads(block.text),
    "bash": script,
}
