"""What the fixture `calibsft` is: the command's words in; exit code, standard output and standard error out."""

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
