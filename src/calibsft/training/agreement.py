"""Processes of one launcher agree on what they train: each node has its own command line and its own files."""

from collections.abc import Mapping
from typing import Any

from accelerate.utils import gather_object

from calibsft.artifacts.records import first_difference
from calibsft.errors import InputError


def require_agreement(shaped_by: Mapping[str, Any]) -> None:
    """Refuse, in every process, settings or inputs that differ between them."""
    first, *others = gather_object([dict(shaped_by)])
    for process, other in enumerate(others, 1):
        found = first_difference(first, other)
        if found is not None:
            key, here, there = found
            raise InputError(
                f"the processes of this training disagree: {key} is {here!r} in process 0 and {there!r} in process {process};"
                " start all of them with the same settings and files"
            )
