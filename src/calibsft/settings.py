"""What every section of settings is: typed, frozen, strict.

Each room owns its section; `recipe` composes them, and commands take their options from them. An unknown key is refused
with the nearest right one, a wrong value by its key. Knows no section itself.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic.fields import FieldInfo

from calibsft.errors import InputError, unknown_name
from calibsft.text import shortened
from calibsft.yaml_text import YamlProblem, parse_yaml

# numpy takes no larger one.
LARGEST_SEED = 2**32 - 1

S = TypeVar("S", bound="Settings")
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
StopString = Annotated[str, Field(min_length=1)]


class Settings(BaseModel):
    """One section of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a section whose class depends on the `name` in it; `kind` says what it names."""

    kind: str
    classes: Mapping[str, type[Settings]]
    default: str

    def class_of(self, data: Any) -> type[Settings]:
        """The class of a section given as plain data; an unknown name is refused with the nearest right one."""
        name = str(self.name_of(data))
        return (
            self.classes[name] if name in self.classes else unknown_name(self.kind, name, list(self.classes))
        )

    def name_of(self, data: Any) -> Any:
        return data.get("name", self.default) if isinstance(data, dict) else getattr(data, "name", None)

    def takers(self, key: str) -> list[str]:
        """The names whose section has `key`."""
        return [name for name, section in self.classes.items() if key in section.model_fields]

    def named(self, data: Any) -> Any:
        return {"name": self.default, **data} if isinstance(data, dict) else data


def one_of(kind: str, classes: Mapping[str, type[Settings]], default: str) -> Any:
    """The type of a section whose class depends on the `name` in it, `default` where it gives none."""
    choice = OneOf(kind, classes, default)
    tagged = tuple(Annotated[section, Tag(name)] for name, section in classes.items())
    return Annotated[
        Union[tagged], Discriminator(choice.name_of), BeforeValidator(choice.named), choice  # noqa: UP007
    ]


def choice_of(field: FieldInfo) -> OneOf | None:
    """The choice that a field's section depends on, None for any other field."""
    return next((marker for marker in field.metadata if isinstance(marker, OneOf)), None)


def require_plain_address(url: str, key: str, variable: str) -> None:
    # The recipe is copied into every run folder, so it must not hold a key.
    if not re.fullmatch(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?", url):
        raise ValueError(
            f"{key} must be a plain address such as http://localhost:8000/v1, and a key must be in the"
            f" environment as {variable}"
        )


def merged(settings: dict[str, Any], differing: dict[str, Any]) -> dict[str, Any]:
    """`settings` with what differs, section by section."""
    found = dict(settings)
    for key, value in differing.items():
        below = found.get(key)
        found[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return found


def parse_overrides(overrides: list[str]) -> dict[str, Any]:
    """Dotted overrides alone, as nested data."""
    data: dict[str, Any] = {}
    for override in overrides:
        apply_override(data, override)
    return data


def apply_override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: write it as key=value, for example --set rollout.samples=8")
    *sections, last = key.split(".")
    for section in sections:
        if data.get(section) is None:  # absent, or a section whose keys are all left out
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise InputError(
                f"--set {override}: '{section}' is a value, not a section; leave out what follows it"
            )
    try:
        data[last] = parse_yaml(text)
    except YamlProblem as error:
        raise InputError(f"--set {key}={shortened(text)}: not a valid value ({error}); correct it") from error


def validated(kind: type[S], data: dict[str, Any], source: str) -> S:
    """`data` as settings, or an error that names the key, the value and the way out."""
    _refuse_unknown_keys(kind, data, source, "")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(_key(kind, first["loc"]))
        if first["type"] == "value_error":  # a rule about several keys, in our own words
            raise InputError(f"{source}: {first['ctx']['error']}; change either") from error
        if first["type"] == "missing":
            raise InputError(f"{source}: {key} is missing; add it") from error
        raise InputError(
            f"{source}: {key} = {shortened(repr(first['input']))}: {first['msg'].lower()}; correct that key"
        ) from error


def _key(kind: type[Settings], location: tuple[int | str, ...]) -> Iterator[str]:
    """The dotted key of an error: pydantic also names the class that was chosen for a section."""
    parts = iter(location)
    for part in parts:
        yield str(part)
        field = kind.model_fields.get(str(part))
        choice = choice_of(field) if field else None
        if choice is not None and (name := next(parts, None)) is not None:
            kind = choice.classes[str(name)]


def _refuse_unknown_keys(
    kind: type[Settings], data: dict[str, Any], source: str, prefix: str, choice: OneOf | None = None
) -> None:
    for key, value in data.items():
        if key not in kind.model_fields:
            raise InputError(
                f"{source}: {_unknown(kind, str(key), prefix, choice.takers(key) if choice else [])}"
            )
        field = kind.model_fields[key]
        if isinstance(value, dict) and (section := _section(field, value, source)):
            _refuse_unknown_keys(section, value, source, f"{prefix}{key}.", choice_of(field))


def _unknown(kind: type[Settings], key: str, prefix: str, takers: list[str]) -> str:
    if takers:
        return f"{prefix}{key} means nothing here, it is for {', '.join(takers)}; leave it out"
    near = get_close_matches(key, kind.model_fields, n=1)
    hint = f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(kind.model_fields)}"
    return f"unknown key '{prefix}{key}'{hint}"


def _section(field: FieldInfo, data: dict[str, Any], source: str) -> type[Settings] | None:
    try:
        return section_class(field, data)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def section_class(field: FieldInfo, data: Any = None) -> type[Settings] | None:
    """The class of the section that a field holds, None where it holds a value; `data` decides where there is a choice."""
    if choice := choice_of(field):
        return choice.class_of({} if data is None else data)
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)
