"""Turns plain data into settings; an error names the key, the value and the remedy."""

import re
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from calibsft.errors import InputError, did_you_mean
from calibsft.settings.base import Settings
from calibsft.settings.choice import CommonTo, OneOf, named_class, section_class
from calibsft.text import shortened

S = TypeVar("S", bound=Settings)


def validated(kind: type[S], data: dict[str, Any], source: str, choice: OneOf | None = None) -> S:
    """`data` as settings, or an error that names the key, the value and the remedy.

    `choice` is the choice that gave `kind`, if there was one.
    """
    try:
        _refuse_unknown_keys(kind, data, "", choice)
        return kind.model_validate(data)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    except ValidationError as error:
        raise InputError(f"{source}: {_explained(error.errors()[0])}") from error


def _explained(error: ErrorDetails) -> str:
    key, given = ".".join(map(str, error["loc"])), shortened(repr(error["input"]))
    if error["type"] == "value_error":
        problem = error["ctx"]["error"]
        # An `InputError` has its remedy; any other is a rule about several keys.
        return str(problem) if isinstance(problem, InputError) else f"{problem}; change either"
    if error["type"] == "missing":
        return f"{key} is missing; add it"
    if error["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        return f"{key} = {given}{did_you_mean(str(error['input']), known)} (known: {', '.join(known)})"
    return f"{key} = {given}: {error['msg'].lower()}; correct that key"


def _refuse_unknown_keys(
    kind: type[Settings], data: dict[str, Any], prefix: str, choice: OneOf | CommonTo | None
) -> None:
    for key, value in data.items():
        if key not in kind.model_fields:
            _refuse_unknown(kind, str(key), prefix, choice)
        field = kind.model_fields[key]
        if not isinstance(value, dict):
            continue
        if section := section_class(field, value):
            marked = (marker for marker in field.metadata if isinstance(marker, OneOf | CommonTo))
            _refuse_unknown_keys(section, value, f"{prefix}{key}.", next(marked, None))
        if kind_of_each := named_class(field):
            for name, inner in value.items():
                if isinstance(inner, dict):
                    _refuse_unknown_keys(kind_of_each, inner, f"{prefix}{key}.{name}.", None)


def _refuse_unknown(kind: type[Settings], key: str, prefix: str, choice: OneOf | CommonTo | None) -> NoReturn:
    if choice and (takers := choice.takers(key)):
        raise InputError(f"{prefix}{key} means nothing here, it is for {', '.join(takers)}; {choice.remedy}")
    near = get_close_matches(key, kind.model_fields, n=1)
    hint = f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(kind.model_fields)}"
    raise InputError(f"unknown key '{prefix}{key}'{hint}")
