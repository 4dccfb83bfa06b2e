r"""Find a LiveBench answer in a response: outside the thoughts, in solution tags, or in `\boxed{}`.

Every function takes time linear in the text, also with unclosed tags. Does not grade.
"""

import re

from calibsft.verify.math.prose import closing_brace

_WRAPPERS = re.compile(r"\\(?:text|textbf|mathbf)\{|[}$]")


def without_thoughts(text: str) -> str:
    """`text` without `<think>…</think>`; an unclosed thought stays, as in the official scoring."""
    *closed, last = text.split("</think>")
    return "".join(part.partition("<think>")[0] for part in closed) + last


def solutions(text: str) -> list[str]:
    """The contents of `<solution>…</solution>`, in order, without blank ones."""
    parts = (part.rpartition("<solution>") for part in text.split("</solution>")[:-1])
    return [inner.strip() for _, opened, inner in parts if opened and inner.strip()]


def boxed(text: str) -> str:
    r"""The last `\boxed{…}` without \text, \textbf and \mathbf around its parts; empty if there is none."""
    _, box, rest = text.rpartition(r"\boxed{")
    end = closing_brace(rest) if box else len(rest)
    return _WRAPPERS.sub("", rest[:end]).strip() if end < len(rest) else ""
