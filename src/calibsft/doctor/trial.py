"""Try something in a process of its own, so that it may fail in any way."""

import signal
import subprocess
import sys
from dataclasses import dataclass

PATIENCE_SECONDS = 300.0
PROGRAM = """
import sys
from importlib import import_module

found = import_module(sys.argv[1])
print(getattr(found, sys.argv[2])() if sys.argv[2:] else "")
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether it worked, and the last line of what it printed or of why it failed."""

    worked: bool
    message: str


def try_module(module: str, function: str = "") -> Trial:
    """Import a module, and print what its function returns if one is named."""
    # -P: files of this folder are not taken for libraries.
    words = [sys.executable, "-P", "-c", PROGRAM, module, *([function] if function else [])]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Trial(False, f"importing {module} takes more than {PATIENCE_SECONDS:.0f} s")
    if done.returncode < 0:
        return Trial(
            False, f"importing {module} ends the process with {signal.Signals(-done.returncode).name}"
        )
    return Trial(done.returncode == 0, _last_line(done.stderr if done.returncode else done.stdout))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
