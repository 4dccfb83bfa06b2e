"""Sections whose class depends on the name in them: a target, an engine or a method has its own keys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, get_args, get_origin

from pydantic import BeforeValidator, SerializeAsAny
from pydantic.fields import FieldInfo

from calibsft.errors import InputError, unknown_name
from calibsft.settings.base import Settings


class WithSettings(Protocol):
    """What can be chosen: a target, an engine, a method."""

    @property
    def settings(self) -> type[Settings]: ...


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a section whose class depends on the `name` in it.

    `kind` is what the name chooses, such as "target". `known` is the dict of all that can be chosen; what is added to it
    later, as by a user's own script, can be chosen too. Without a `default` a name must be given. `words` describes
    one of them, or is None.
    """

    kind: str
    known: Mapping[str, WithSettings]
    default: str = ""
    words: Callable[[Any], str] | None = None

    @property
    def classes(self) -> dict[str, type[Settings]]:
        """The class of settings of every name."""
        return {name: one.settings for name, one in self.known.items()}

    @property
    def help(self) -> str:
        """The help text, in Markdown: the names that can be chosen."""
        if self.words is None:
            return f"one of {', '.join(self.known)}"
        named = (f"{name}: {self.words(one)}" for name, one in self.known.items())
        return "\n- ".join(["one of these:", *named])

    def class_of(self, data: Any) -> type[Settings]:
        """The class of a section given as plain data; the error for an unknown name suggests the nearest known one."""
        name = str(self.name_of(data))
        if not name:
            raise InputError(f"no {self.kind} is named; name one of {', '.join(self.classes)}")
        return (
            self.classes[name] if name in self.classes else unknown_name(self.kind, name, list(self.classes))
        )

    def name_of(self, data: Any) -> Any:
        return data.get("name", self.default) if isinstance(data, dict) else getattr(data, "name", None)

    def takers(self, key: str) -> list[str]:
        """The names whose section has `key`."""
        return [name for name, section in self.classes.items() if key in section.model_fields]

    @property
    def remedy(self) -> str:
        """What an error advises about a key that belongs to another name."""
        return "leave it out"

    def chosen(self, data: Any) -> Any:
        """A section given as plain data, as settings of the class that it names."""
        if not isinstance(data, dict):
            return data
        return self.class_of(data).model_validate({"name": self.default, **data})

    def section(self) -> Any:
        """The type annotation of such a section."""
        return Annotated[SerializeAsAny[Settings], BeforeValidator(self.chosen), self]


@dataclass(frozen=True, slots=True)
class CommonTo:
    """Marks a section of the keys that the classes of `choice` share; the other keys go under `place`."""

    choice: OneOf
    place: str

    def takers(self, key: str) -> list[str]:
        return self.choice.takers(key)

    @property
    def remedy(self) -> str:
        return f"give it to them under {self.place}"


def choice_of(field: FieldInfo) -> OneOf | None:
    """The choice that a field's section depends on; None for other fields."""
    return next((marker for marker in field.metadata if isinstance(marker, OneOf)), None)


def section_class(field: FieldInfo, data: Any = None) -> type[Settings] | None:
    """The class of a field's section, None if the field is a plain value; `data` names the choice, if there is one."""
    if choice := choice_of(field):
        return choice.class_of({} if data is None else data)
    if get_origin(field.annotation) is dict:
        return None
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)


def named_class(field: FieldInfo) -> type[Settings] | None:
    """The class of the sections in a mapping from names to sections; None for other fields."""
    if get_origin(field.annotation) is not dict:
        return None
    kind = get_args(field.annotation)[1]
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None
