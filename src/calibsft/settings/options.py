"""Settings as flat options: flags of commands, keywords of the Python API.

An option has the name of its field; outside the main section, the name of the section comes first. A `Flag` on the field
changes that. Options set no defaults: the settings class does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from calibsft.errors import InputError
from calibsft.settings.base import Flag, Mark, Settings
from calibsft.settings.choice import OneOf, choice_of, section_class
from calibsft.settings.metavars import metavar_of
from calibsft.settings.overrides import parse_overrides


@dataclass(frozen=True, slots=True)
class Option:
    """One value that can be given.

    Attributes
    ----------
    key : its place in the settings, from the outermost section inwards.
    flags : its spellings on the command line; none for a positional argument.
    type : what it is parsed as: int, float, bool, str, Path, or list[str] for an option that is repeated.
    joined : whether one text holds several values, separated by commas.
    default : as help shows it.
    required : whether it must be given; of alternatives, one of them.
    alternative : whether other options set the same key.
    section, title : the dotted key of the section that it belongs to, and what help calls that; empty outside all sections.
    example : of an option whose values are dotted keys with values, one of them; else empty.
    metavar : what help shows as its value.
    """

    key: tuple[str, ...]
    flags: tuple[str, ...]
    type: Any
    joined: bool
    default: str
    required: bool
    alternative: bool
    help: str
    section: str
    title: str
    example: str = ""
    metavar: str = ""

    @property
    def name(self) -> str:
        """Its name in Python."""
        word = self.flags[0].lstrip("-") if self.flags else self.key[-1]
        return word.replace("-", "_").replace(".", "_")


def options_of(kind: type[Settings], main: str = "") -> list[Option]:
    """All options of a settings class; those of its section `main` have no prefix."""
    found: dict[tuple[str, ...], Option] = {}
    for option in _options(kind, main, (), ""):
        found.setdefault(option.flags or option.key, option)
    return list(found.values())


def nested(options: list[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, by option name, as nested data for the settings class."""
    data: dict[str, Any] = {}
    for option in options:
        value = given.get(option.name)
        if value is not None and value != []:
            _put(data, option, _parsed(option, value))
    _require(options, given)
    return data


def _parsed(option: Option, value: Any) -> Any:
    if option.joined:
        return _several(value)
    if option.example and isinstance(value, list | tuple):
        return parse_overrides(value, option.flags[0], option.example)
    return _text(value)


def _several(value: Any) -> Any:
    """The values of an option that takes several: one text with commas, one path, or a list of both."""
    if isinstance(value, str):
        return comma_separated(value)
    if isinstance(value, Path):
        return (str(value),)
    return tuple(map(_text, value)) if isinstance(value, list | tuple) else value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _require(options: list[Option], given: Mapping[str, Any]) -> None:
    for key in dict.fromkeys(option.key for option in options if option.required):
        same = [option for option in options if option.key == key]
        if all(given.get(option.name) is None for option in same):
            names = " or ".join(option.flags[0] if option.flags else option.name for option in same)
            raise InputError(f"{names} is missing; add it")


def _put(data: dict[str, Any], option: Option, value: Any) -> None:
    *sections, last = option.key
    for section in sections:
        data = data.setdefault(section, {})
    if last not in data:
        data[last] = value
    elif option.joined:
        data[last] = (*data[last], *value)
    else:
        raise InputError(
            f"{option.flags[0]} sets the same as another option that was given; leave one of them out"
        )


def comma_separated(text: str) -> tuple[str, ...]:
    """The values in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _options(kind: type[Settings], main: str, path: tuple[str, ...], prefix: str) -> Iterator[Option]:
    for name, field in kind.model_fields.items():
        inside, inner = (*path, name), "" if (*path, name) == (main,) else f"{prefix}{name}-"
        if choice := choice_of(field):
            yield from _of_choice(choice, main, inside, inner)
        elif section := section_class(field):
            yield from _options(section, main, inside, inner)
        else:
            yield from _of_value(field, inside, prefix, kind.title)


def _of_choice(choice: OneOf, main: str, path: tuple[str, ...], prefix: str) -> Iterator[Option]:
    """The option that chooses, and the options of every class that can be chosen."""
    first, must, section = next(iter(choice.classes.values())), not choice.default, ".".join(path)
    yield Option(
        (*path, "name"),
        (f"--{choice.kind}",),
        str,
        False,
        choice.default,
        must,
        False,
        choice.help,
        section,
        first.title,
        metavar="NAME",
    )
    offered: dict[tuple[str, ...], dict[str, Option]] = {}
    for name, kind in choice.classes.items():
        for option in _options(kind, main, path, prefix):
            if option.key != (*path, "name"):
                offered.setdefault(option.flags or option.key, {})[name] = option
    for takers in offered.values():
        yield _of_takers(takers, len(takers) == len(choice.classes))


def _of_takers(takers: dict[str, Option], every: bool) -> Option:
    """One option for all names that take it; its help says which these are, and whose default is another."""
    first = next(iter(takers.values()))
    help_text = first.help if every else f"{first.help} ({', '.join(takers)})"
    defaults: dict[str, list[str]] = {}
    for name, option in takers.items():
        defaults.setdefault(option.default, []).append(name)
    usual, *others = sorted(defaults, key=lambda default: -len(defaults[default]))
    default = "; ".join([usual, *(f"{', '.join(defaults[other])}: {other}" for other in others)])
    return replace(first, help=help_text, default=default, required=False)


def _of_value(field: FieldInfo, key: tuple[str, ...], prefix: str, title: str) -> Iterator[Option]:
    kind, joined = _parsed_as(field.annotation, Mark.REPEATED in field.metadata)
    required = field.is_required()
    default = "" if required else _in_words(field.get_default(call_default_factory=True))
    flags, section = _flags(field, key, prefix), ".".join(key[:-1])
    example = str(field.examples[0]) if field.examples else ""
    for flag in flags:
        spelled = () if Mark.POSITIONAL in field.metadata else flag.names
        words, metavar = flag.help or field.description or "", flag.metavar or metavar_of(field, kind, joined)
        alternative = len(flags) > 1
        yield Option(
            key,
            spelled,
            kind,
            joined,
            default,
            required,
            alternative,
            words,
            section,
            title,
            example,
            metavar,
        )


def _flags(field: FieldInfo, key: tuple[str, ...], prefix: str) -> list[Flag]:
    marked = [flag for flag in field.metadata if isinstance(flag, Flag) and (flag.always or not prefix)]
    return marked or [Flag(f"--{prefix}{key[-1]}".replace("_", "-"))]


def _parsed_as(annotation: Any, repeated: bool) -> tuple[Any, bool]:
    """The type that the command line parses a value as, and whether one text holds several."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _parsed_as(inner[0], repeated)
    if origin in (Union, UnionType):
        kinds = [_parsed_as(kind, repeated) for kind in inner if kind is not NoneType]
        return kinds[0] if len(kinds) == 1 else (str, False)
    if origin is dict:
        return list[str], False
    if origin is tuple:
        return (list[str], False) if repeated else (str, True)
    if origin is Literal or annotation not in (int, float, bool, Path):
        return str, False
    return annotation, False


def _in_words(default: Any) -> str:
    """A default as help shows it."""
    if default is None or default in ((), {}):
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
