"""Turns plain data into settings; an error names the key, the value and the remedy."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from calibsft.errors import InputError
from calibsft.settings.base import Settings
from calibsft.settings.choice import CommonTo, OneOf, choice_of, section_class
from calibsft.text import shortened

S = TypeVar("S", bound=Settings)


def validated(kind: type[S], data: dict[str, Any], source: str, choice: OneOf | None = None) -> S:
    """`data` as settings, or an error that names the key, the value and the remedy.

    `choice` is the choice that gave `kind`, if there was one.
    """
    _refuse_unknown_keys(kind, data, source, "", choice)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(_key(kind, first["loc"]))
        if first["type"] == "value_error":
            problem = first["ctx"]["error"]
            if isinstance(problem, InputError):  # already has its remedy
                raise InputError(f"{source}: {problem}") from error
            # a rule about several keys
            raise InputError(f"{source}: {problem}; change either") from error
        if first["type"] == "missing":
            raise InputError(f"{source}: {key} is missing; add it") from error
        if first["type"] == "literal_error":
            _refuse_word(source, key, first["input"], re.findall(r"'([^']*)'", first["ctx"]["expected"]))
        raise InputError(
            f"{source}: {key} = {shortened(repr(first['input']))}: {first['msg'].lower()}; correct that key"
        ) from error


def _refuse_word(source: str, key: str, given: Any, known: list[str]) -> NoReturn:
    near = get_close_matches(str(given), known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(f"{source}: {key} = {shortened(repr(given))}{hint} (known: {', '.join(known)})")


def _key(kind: type[Settings], location: tuple[int | str, ...]) -> Iterator[str]:
    """The dotted key of an error, without the names of chosen classes that pydantic adds."""
    parts = iter(location)
    for part in parts:
        yield str(part)
        field = kind.model_fields.get(str(part))
        if field is None:
            continue
        if (choice := choice_of(field)) and (name := next(parts, None)) is not None:
            kind = choice.classes[str(name)]
        else:
            kind = section_class(field) or kind


def _refuse_unknown_keys(
    kind: type[Settings], data: dict[str, Any], source: str, prefix: str, choice: OneOf | CommonTo | None
) -> None:
    for key, value in data.items():
        if key not in kind.model_fields:
            raise InputError(f"{source}: {_unknown(kind, str(key), prefix, choice)}")
        field = kind.model_fields[key]
        if isinstance(value, dict) and (section := _section(field, value, source)):
            _refuse_unknown_keys(section, value, source, f"{prefix}{key}.", _choice(field))


def _choice(field: FieldInfo) -> OneOf | CommonTo | None:
    return next((marker for marker in field.metadata if isinstance(marker, OneOf | CommonTo)), None)


def _unknown(kind: type[Settings], key: str, prefix: str, choice: OneOf | CommonTo | None) -> str:
    if choice and (takers := choice.takers(key)):
        return f"{prefix}{key} means nothing here, it is for {', '.join(takers)}; {choice.remedy}"
    near = get_close_matches(key, kind.model_fields, n=1)
    hint = f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(kind.model_fields)}"
    return f"unknown key '{prefix}{key}'{hint}"


def _section(field: FieldInfo, data: dict[str, Any], source: str) -> type[Settings] | None:
    try:
        return section_class(field, data)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
