"""Sections whose class depends on the name in them: a target, an engine or a method brings keys of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args

from pydantic import BeforeValidator, Discriminator, Tag
from pydantic.fields import FieldInfo

from calibsft.errors import unknown_name
from calibsft.settings.base import Settings


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a section whose class depends on the `name` in it.

    `kind` says what it names; `words` says something of each name, or nothing of any.
    """

    kind: str
    classes: Mapping[str, type[Settings]]
    default: str
    words: Mapping[str, str]

    @property
    def help(self) -> str:
        """The names that can be chosen, in words."""
        names = [f"{name}: {self.words[name]}" if self.words else name for name in self.classes]
        return f"one of {'; '.join(names) if self.words else ', '.join(names)}"

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


def one_of(
    kind: str, classes: Mapping[str, type[Settings]], default: str, words: Mapping[str, str] | None = None
) -> Any:
    """The type of a section whose class depends on the `name` in it, `default` where it gives none."""
    choice = OneOf(kind, classes, default, words or {})
    tagged = tuple(Annotated[section, Tag(name)] for name, section in classes.items())
    return Annotated[
        Union[tagged], Discriminator(choice.name_of), BeforeValidator(choice.named), choice  # noqa: UP007
    ]


def choice_of(field: FieldInfo) -> OneOf | None:
    """The choice that a field's section depends on, None for any other field."""
    return next((marker for marker in field.metadata if isinstance(marker, OneOf)), None)


def section_class(field: FieldInfo, data: Any = None) -> type[Settings] | None:
    """The class of the section that a field holds, None where it holds a value; `data` decides where there is a choice."""
    if choice := choice_of(field):
        return choice.class_of({} if data is None else data)
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)
