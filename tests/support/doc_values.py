"""Runs Python of the documentation, and compares what comments beside expressions say with what the expressions are.

A comment is compared if it begins with a value: `f(x)  # 0.25`, `# 3, "a": why`, `# Grade.CORRECT`, `# {"n": 2, …}`. Numbers
are compared to the digits that are shown, and `…` stands for anything. Any other comment is prose.
"""

import ast
import re
import tokenize
from enum import Enum
from io import StringIO
from numbers import Real
from typing import Any

MEMBER = re.compile(r"[A-Z]\w*\.[A-Z_]+")


def execute(code: str, name: str, names: dict[str, Any]) -> None:
    """Run `code` in `names`; an AssertionError says which comment is wrong."""
    said = comments(code)
    for node in ast.parse(code, name).body:
        comment = said.get(node.end_lineno or 0, "")
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), name, "eval"), names)  # noqa: S307 - our own docs
            printed = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
            assert printed or agrees(comment, value), f"the comment says {comment}, and it is {value!r}"
        else:
            exec(compile(ast.Module([node], []), name, "exec"), names)  # noqa: S102 - our own docs


def comments(code: str) -> dict[int, str]:
    """The comments by their lines."""
    tokens = tokenize.generate_tokens(StringIO(code).readline)
    return {token.start[0]: token.string[1:].strip() for token in tokens if token.type == tokenize.COMMENT}


def agrees(comment: str, value: Any) -> bool:
    """Whether a comment is prose, or says the value."""
    if comment.startswith(("{", "[")):
        return _in_order(comment.replace('"', "'").split("…"), repr(value))
    stated = re.split(r"[:;](?: |$)", comment)[0]
    if MEMBER.fullmatch(stated):
        return isinstance(value, Enum) and f"{type(value).__name__}.{value.name}" == stated
    try:
        literal = ast.literal_eval(stated)
    except (SyntaxError, ValueError):
        return True
    if not isinstance(literal, tuple):
        return _same(stated, literal, value)
    texts = [text.strip() for text in stated.strip("()").split(",")]
    return len(literal) == len(value) and all(map(_same, texts, literal, value))


def _same(text: str, literal: Any, value: Any) -> bool:
    """Whether a value is the one that is shown, to the digits that are shown."""
    if isinstance(literal, Real) and not isinstance(literal, bool) and isinstance(value, Real):
        return f"{value:.{len(text.partition('.')[2])}f}" == text
    return bool(literal == value)


def _in_order(parts: list[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part.strip(), at)
        if found < 0:
            return False
        at = found + len(part.strip())
    return True
