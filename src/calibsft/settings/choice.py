"""Sections whose class depends on the name in them: a target, an engine or a method brings keys of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args

from pydantic import BeforeValidator, Discriminator, Tag
from pydantic.fields import FieldInfo

from calibsft.errors import InputError, unknown_name
from calibsft.settings.base import Settings


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a section whose class depends on the `name` in it.

    `kind` says what it names; without a `default` a name must be given; `words` says something of each name, or nothing
    of any.
    """

    kind: str
    classes: Mapping[str, type[Settings]]
    default: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def help(self) -> str:
        """The names that can be chosen, in words."""
        names = [f"{name}: {self.words[name]}" if self.words else name for name in self.classes]
        return f"one of {'; '.join(names) if self.words else ', '.join(names)}"

    def class_of(self, data: Any) -> type[Settings]:
        """The class of a section given as plain data; an unknown name is refused with the nearest right one."""
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
        """What to do with a key of another name's section."""
        return "leave it out"

    def named(self, data: Any) -> Any:
        return {"name": self.default, **data} if isinstance(data, dict) else data

    def section(self) -> Any:
        """The type of such a section."""
        tagged = tuple(Annotated[section, Tag(name)] for name, section in self.classes.items())
        return Annotated[Union[tagged], Discriminator(self.name_of), BeforeValidator(self.named), self]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class CommonTo:
    """Marks a section of what the classes of `choice` have in common; `place` is where each gets what is its own."""

    choice: OneOf
    place: str

    def takers(self, key: str) -> list[str]:
        return self.choice.takers(key)

    @property
    def remedy(self) -> str:
        return f"give it to them under {self.place}"


def choice_of(field: FieldInfo) -> OneOf | None:
    """The choice that a field's section depends on, None for any other field."""
    return next((marker for marker in field.metadata if isinstance(marker, OneOf)), None)


def section_class(field: FieldInfo, data: Any = None) -> type[Settings] | None:
    """The class of the section that a field holds, None where it holds a value; `data` decides where there is a choice."""
    if choice := choice_of(field):
        return choice.class_of({} if data is None else data)
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)
