"""What every section of settings is: typed, frozen, strict.

Each room owns its section; `recipe` composes them, and commands take their options from them. An unknown key is refused
with the nearest right one, a wrong value by its key. Knows no section itself.
"""

import re
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from calibsft.errors import InputError
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
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "value_error":  # a rule about several keys, in our own words
            raise InputError(f"{source}: {first['ctx']['error']}; change either") from error
        if first["type"] == "missing":
            raise InputError(f"{source}: {key} is missing; add it") from error
        raise InputError(
            f"{source}: {key} = {shortened(repr(first['input']))}: {first['msg'].lower()}; correct that key"
        ) from error


def _refuse_unknown_keys(kind: type[Settings], data: dict[str, Any], source: str, prefix: str) -> None:
    for key, value in data.items():
        if key not in kind.model_fields:
            near = get_close_matches(str(key), kind.model_fields, n=1)
            hint = (
                f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(kind.model_fields)}"
            )
            raise InputError(f"{source}: unknown key '{prefix}{key}'{hint}")
        annotation = kind.model_fields[key].annotation
        for section in (annotation, *get_args(annotation)):
            if isinstance(section, type) and issubclass(section, Settings) and isinstance(value, dict):
                _refuse_unknown_keys(section, value, source, f"{prefix}{key}.")
