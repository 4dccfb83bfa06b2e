"""Terminals that know less than ours, Ctrl-C before a command is there, systems that are not supported, completion."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CALIBSFT = [sys.executable, "-m", "calibsft"]
INTERRUPTED = "interrupted; run the same command again to go on\n"


def run(*words: str, folder: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*CALIBSFT, *words], capture_output=True, cwd=folder, env=os.environ | environment, check=False
    )


@pytest.mark.parametrize("words", [["score", "s.csv", "--md"], ["diagnose", "s.csv"], ["serve", "--help"]])
def test_a_terminal_that_knows_ascii_alone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("confidence,correct\n0.5,1\n0.9,0\n0.2,0\n")
    found = run(*words, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert found.stdout.decode("ascii")


def test_bars_and_names_stay_readable_in_ascii(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        "confidence,correct,dataset\n0.5,1,é\n0.9,0,é\n0.2,0,b\n", encoding="utf-8"
    )
    assert b"####" in run("diagnose", "s.csv", folder=tmp_path, PYTHONIOENCODING="ascii").stdout
    assert rb"\xe9" in run("score", "s.csv", folder=tmp_path, PYTHONIOENCODING="ascii").stdout


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    found = subprocess.run([*CALIBSFT, "report", b"\xff.csv"], capture_output=True, cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.decode() == (
        "calibsft: '\\udcff.csv': not a name in the terminal's encoding; rename the file or folder\n"
    )


# As a terminal starts it: a shell that runs the tests in the background hands down an ignored SIGINT.
SLOW_IMPORT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["calibsft", "ls"]
import calibsft.cli

class Slow:
    # An import that is under way when the signal comes, as a compiled one is for seconds.
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            print("importing", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Slow())
calibsft.cli.main()
"""


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, INTERRUPTED)


SWALLOWED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["calibsft", "ls"]
import calibsft.cli

class Compiled:
    # Compiled modules turn an exception in their beginning into an ImportError, and some crash later.
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                raise ImportError("initialization failed")

sys.meta_path.insert(0, Compiled())
calibsft.cli.main()
"""


def test_an_interrupt_that_a_compiled_module_swallows() -> None:
    found = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (130, INTERRUPTED)


IGNORED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["calibsft", "ls"]
import calibsft.cli, calibsft.cli.app

class Closing:
    # Python goes on after an exception in here.
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def work():
    Closing()
    time.sleep(60)
    print("not interrupted")

calibsft.cli.app.main = work
calibsft.cli.main()
"""


def test_an_interrupt_while_an_object_is_deleted_is_not_lost() -> None:
    found = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", INTERRUPTED)


IN_A_TASK = """
import asyncio, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["calibsft", "ls"]
import calibsft.cli, calibsft.cli.app
from calibsft.served.fleet import run

async def interrupted():
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

async def waiting():
    try:
        await asyncio.sleep(60)
    finally:
        print("closed", flush=True)

async def work():
    # A client library has tasks of its own, whose exceptions nobody asks for.
    tasks = asyncio.create_task(waiting()), asyncio.create_task(interrupted())
    await asyncio.sleep(60)

calibsft.cli.app.main = lambda: run(work())
calibsft.cli.main()
"""


def test_an_interrupt_in_one_of_many_requests_is_quiet() -> None:
    found = subprocess.run([sys.executable, "-c", IN_A_TASK], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (130, "closed\n", INTERRUPTED)


# Libraries that look at the system themselves are there before it changes.
WINDOWS = """
import sys, numpy, polars, scipy.stats
sys.platform = "win32"
for missing in ("resource", "fcntl"):
    sys.modules[missing] = None
"""
SENTENCE = "calibsft runs on Linux and macOS, not on Windows itself; install and run it inside WSL"


def test_windows_is_told_at_the_command_line() -> None:
    code = WINDOWS + "from calibsft.cli import main\nsys.argv = ['calibsft', 'ls']\nmain()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.startswith(f"calibsft: {SENTENCE}") and found.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["artifacts", "metrics", "verify"])
def test_windows_is_told_where_a_part_is_imported(name: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"{WINDOWS}import calibsft.{name}"], capture_output=True, text=True
    )
    assert found.stderr.splitlines()[-1].startswith(f"calibsft.errors.UnsupportedSystem: {SENTENCE}")


def completed(words: str) -> str:
    """What bash is offered after `words`."""
    found = run(_CALIBSFT_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    assert found.returncode == 0, found.stderr
    return found.stdout.decode()


def test_words_are_completed_in_bash() -> None:
    assert {"rollout", "score", "run", "rl"} <= set(completed("calibsft ").split())
    assert "--baseline" in completed("calibsft score --base").split()


def test_the_script_for_bash_is_printed() -> None:
    # The shell is the nearest one around the process, so it must not be the one that runs the tests.
    inside = f"{shlex.join([*CALIBSFT, '--show-completion'])}; exit $?"
    found = subprocess.run(["bash", "-c", inside], capture_output=True, check=False)
    assert found.returncode == 0 and b"_CALIBSFT_COMPLETE=complete_bash" in found.stdout
