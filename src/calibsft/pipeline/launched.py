"""Perform a training of a run by its launcher.

The launcher starts `python -m calibsft launched-stage`, which performs one stage of the run's own recipe. Its processes
print their progress themselves. Knows no launcher: the command is words.
"""

import shutil
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from calibsft import supervised
from calibsft.errors import InputError

COMMAND = "launched-stage"
# A hidden file, which is not part of a stage's content.
PROBLEM = ".problem"


def launch(words: Sequence[str], root: Path, name: str, fresh: bool, hash_check: bool) -> None:
    """Let a launcher perform the stage `name` of the run in `root`."""
    problem = root / name / PROBLEM
    problem.unlink(missing_ok=True)
    flags = ["--fresh"] if fresh else []
    flags += [] if hash_check else ["--no-hash-check"]
    command = [program(words[0]), *words[1:], "-m", "calibsft", COMMAND, str(root), name, *flags]
    process = supervised.started(command)
    try:
        code = supervised.wait(process)
    finally:
        supervised.end(process)
    if problem.is_file():
        raise InputError(problem.read_text(encoding="utf-8"))
    if code:
        raise InputError(
            f"{name}: the processes that '{' '.join(words)}' started ended with code {code}, as they say above; run the same"
            " command again to go on"
        )


def program(word: str) -> str:
    """The file of a program; those of this environment come first, even if it is not activated."""
    found = shutil.which(word, path=sysconfig.get_path("scripts")) or shutil.which(word)
    if found is None:
        raise InputError(
            f"the launcher '{word}' is not installed; install it, or change launch in the recipe"
        )
    return found


def write_problem(root: Path, name: str, sentence: str) -> None:
    """Leave the sentence of an error for the run that waits."""
    with suppress(OSError):
        (root / name / PROBLEM).write_text(sentence, encoding="utf-8")
