"""How this package writes docstrings, for the reader of the numpy style.

Here `name : what it is` stands on one line, since the type is in the signature; that style would take it for the type. What
a function returns is a sentence here, and an entry with a type there.
"""

import re
from textwrap import indent
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"^(Parameters|Attributes|Raises)\n-+\n((?:.+\n?)*)", re.MULTILINE)
ENTRY = re.compile(r"^(\S.*?) : (.*)$", re.MULTILINE)
RETURNS = re.compile(r"^(Returns\n-+\n)((?:.+\n?)*)", re.MULTILINE)


class Docstrings(Extension):
    """Puts what an entry is on a line of its own."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = in_numpy_style(obj.docstring.value)


def in_numpy_style(text: str) -> str:
    """A docstring as the numpy style has it."""
    text = SECTION.sub(lambda section: ENTRY.sub(r"\1\n    \2", section[0]), text)
    return RETURNS.sub(lambda section: f"{section[1]}:\n{indent(section[2], '    ')}", text)
