"""Importing this ends in one sentence where calibsft does not work: it forks, locks and limits as Unix does."""

import sys

from calibsft.errors import UnsupportedSystem

if sys.platform == "win32":
    raise UnsupportedSystem(
        "calibsft runs on Linux and macOS, not on Windows itself; install and run it inside WSL, the Windows Subsystem for"
        " Linux"
    )
