"""What help shows as the value of an option: a word such as FOLDER, a few choices, or a type with its range."""

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from calibsft.settings.base import Metavar

TYPES = {bool: "", int: "INT", float: "FLOAT", Path: "PATH"}
# Longer lists of choices stand in the help text, or the texts of all options would become narrow.
LONGEST_CHOICES = 15


def metavar_of(field: FieldInfo, kind: Any, joined: bool) -> str:
    """What help shows for a field that the command line parses as `kind`, or as several values joined by commas."""
    for mark in field.metadata:
        if isinstance(mark, Metavar):
            return mark.word
    if field.examples:
        return "KEY=VALUE"
    choices = "|".join(get_args(field.annotation)) if get_origin(field.annotation) is Literal else ""
    if 0 < len(choices) <= LONGEST_CHOICES:
        return choices
    if joined:
        return "A,B,…"
    return f"{TYPES.get(kind, 'TEXT')} {_range(field)}".strip()


def _range(field: FieldInfo) -> str:
    """The numbers that a field takes, as typer shows those of its own options."""
    low = high = ""
    for bound in field.metadata:
        if isinstance(bound, Ge | Gt):
            low = f"{bound.ge}<=" if isinstance(bound, Ge) else f"{bound.gt}<"
        elif isinstance(bound, Le | Lt):
            high = f"<={bound.le}" if isinstance(bound, Le) else f"<{bound.lt}"
    if low and not high:
        number = low.rstrip("<=")
        return f"[x>={number}]" if low.endswith("=") else f"[x>{number}]"
    return f"[{low}x{high}]" if high else ""
