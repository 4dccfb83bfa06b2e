"""`calibsft` commands in processes of their own, forked from one that has imported the heavy libraries.

A started command spends six of its seconds on imports. A forked one is otherwise the same: own pid, output and folder, and
it can be killed. polars is not among the imports: it starts threads, which a fork does not copy. Tests of imports, of
launchers and of other copies of the package start their commands anew.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory

IMPORTS = [
    "torch",
    "scipy.stats",
    "sympy",
    "accelerate",
    "transformers.trainer",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.qwen3.modeling_qwen3",
]
NOWHERE = Path(os.devnull)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(IMPORTS)


class Started:
    """A command under way, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        words: Sequence[str],
        out: Path = NOWHERE,
        err: Path = NOWHERE,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        here = folder or Path.cwd()
        self._process = _context.Process(target=_perform, args=(words, out, err, here, dict(environment)))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("calibsft", timeout or 0)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None and self.pid:
            os.kill(self.pid, number)


def run(
    words: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    timeout: float = 400,
) -> CompletedProcess[str]:
    """Run a command to its end; what it printed is in the result."""
    with TemporaryDirectory() as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        child = Started(words, out, err, folder, environment)
        try:
            code = child.wait(timeout)
        except TimeoutExpired:
            child.kill()
            raise
        return CompletedProcess([*words], code, out.read_text(), err.read_text())


def _perform(words: Sequence[str], out: Path, err: Path, folder: Path, environment: dict[str, str]) -> None:
    for number, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = ["calibsft", *words]
    from calibsft.cli import main

    try:
        main()
    finally:
        # multiprocessing leaves these out
        atexit._run_exitfuncs()
