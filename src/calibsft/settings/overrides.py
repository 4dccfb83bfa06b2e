"""Settings given as text: dotted keys with values in YAML, `rollout.samples=8`."""

from collections.abc import Iterable
from typing import Any

from calibsft.errors import InputError
from calibsft.text import shortened
from calibsft.yaml_text import YamlProblem, parse_yaml


def merged(settings: dict[str, Any], differing: dict[str, Any]) -> dict[str, Any]:
    """`settings` with the values of `differing`, merged section by section."""
    found = dict(settings)
    for key, value in differing.items():
        below = found.get(key)
        found[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return found


def parse_overrides(
    overrides: Iterable[str], flag: str = "--set", example: str = "rollout.samples=8"
) -> dict[str, Any]:
    """Dotted overrides as nested data; errors name the option `flag` and show `example`."""
    data: dict[str, Any] = {}
    for override in overrides:
        apply_override(data, override, flag, example)
    return data


def apply_override(
    data: dict[str, Any], override: str, flag: str = "--set", example: str = "rollout.samples=8"
) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"{flag} {override}: write it as key=value, for example {flag} {example}")
    *sections, last = key.split(".")
    for section in sections:
        if data.get(section) is None:  # absent, or a section without keys
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise InputError(
                f"{flag} {override}: '{section}' is a value, not a section; leave out what follows it"
            )
    try:
        data[last] = parse_yaml(text)
    except YamlProblem as error:
        raise InputError(
            f"{flag} {key}={shortened(text)}: not a valid value ({error}); correct it"
        ) from error
