r"""Find a LiveBench answer in a response: outside the thoughts, in solution tags, in bold, or in `\boxed{}`.

Every function takes time linear in the text, also with unclosed tags. Does not grade.
"""

import re

_BOLD_LINE = re.compile(r"\*\*(.*?)\*\*")
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
    start = text.rfind(r"\boxed{")
    if start < 0:
        return ""
    start += len(r"\boxed{")
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return _WRAPPERS.sub("", text[start:position]).strip()
    return ""


def bold(text: str) -> list[str]:
    """The texts between `**` and `**` on one line, in order."""
    return _BOLD_LINE.findall(text)
