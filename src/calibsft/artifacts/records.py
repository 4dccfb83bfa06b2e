"""The record of a stage from its beginning - settings and inputs - and how it differs from today's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibsft.artifacts.names import SETTINGS
from calibsft.errors import InputError
from calibsft.schema import SCHEMA_VERSION
from calibsft.yaml_text import YamlProblem, parse_yaml


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record of an earlier run in a stage folder, None if there is none."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        old = parse_yaml(path.read_text(encoding="utf-8"))
    except (YamlProblem, UnicodeDecodeError):
        old = None
    if not (isinstance(old, dict) and all(isinstance(old.get(key), dict) for key in ("settings", "inputs"))):
        raise InputError(
            f"{path}: not a settings file of calibsft, or damaged; remove {folder} or choose another --out"
        )
    return old


def recorded_settings(folder: Path) -> dict[str, Any]:
    """The settings of a stage, as its record has them."""
    record = read_record(folder)
    if record is None:
        raise InputError(f"{folder}: no {SETTINGS} there, so this is not a stage; run the stage again")
    settings: dict[str, Any] = record["settings"]
    return settings


def changed(old: Mapping[str, Any], settings: Mapping[str, Any], inputs: Mapping[str, str]) -> str | None:
    """The first difference between a record and today's settings and inputs, None if there is none."""
    if old.get("schema_version") != SCHEMA_VERSION:
        return f"it has schema version {old.get('schema_version')}, this program writes {SCHEMA_VERSION}"
    found = first_difference(old["settings"], json.loads(json.dumps(settings)))
    if found is not None:
        return "{} was {!r} and is now {!r}".format(*found)
    for name in sorted(inputs.keys() | old["inputs"].keys()):
        if old["inputs"].get(name) != inputs.get(name):
            return f"its input '{name}' has changed"
    return None


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first setting that differs, as a dotted key and both values; None if there is none."""
    old, new = flatten(before), flatten(now)
    # Keys of one side alone come last: they follow from a choice that both sides have made, such as the method's name.
    for key in sorted(old.keys() | new.keys(), key=lambda key: (key not in old or key not in new, key)):
        if old.get(key) != new.get(key):
            return key, old.get(key), new.get(key)
    return None


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
