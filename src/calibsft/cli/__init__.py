"""The command line: one thin file per command, listed in `app`."""

from calibsft.cli.app import main

__all__ = ["main"]
