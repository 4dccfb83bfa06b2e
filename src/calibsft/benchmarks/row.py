"""One row of a benchmark's data: its fields as checked text, and the question made from them.

Every error names the source, the row (1-based) and the field. Does not know where rows come from (`sources`) or what a
benchmark asks (its own file).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from calibsft.errors import InputError
from calibsft.files.cells import list_of, shown
from calibsft.schema import Question


@dataclass(frozen=True, slots=True)
class Row:
    """A row, with what is needed to make a `Question` of it.

    `number` is its 1-based position in `source`, a file or a dataset of the Hub, for messages; `index` its 0-based position in
    the whole benchmark, the id of a row without an own id. Nested fields are lists and mappings.
    """

    source: str
    number: int
    index: int
    fields: Mapping[str, Any]
    dataset: str
    grader: str

    def question(
        self, text: str, gold: str | tuple[str, ...], *, id: str = "", grader: str = "", tolerance: str = ""
    ) -> Question:
        """The question of this row; its id is the row's index unless one is given."""
        return Question(id or str(self.index), text, gold, grader or self.grader, self.dataset, tolerance)

    def has(self, name: str) -> bool:
        """Whether the field exists and is not null."""
        return not _is_null(self.fields.get(name))

    def own_id(self, *names: str) -> str:
        """The first of these fields that the row has, or the row's index, as its id."""
        name = next((name for name in names if self.has(name)), None)
        return self.text(name) if name else str(self.index)

    def text(self, *names: str) -> str:
        """The first of these fields that the row has, as text without white space at its ends."""
        return self.optional_text(*names) or self._refuse_empty(names)

    def optional_text(self, *names: str) -> str:
        """The same, but the field may be empty or null; it must exist."""
        return self._as_text(*self._find(names))

    def texts(self, *names: str) -> tuple[str, ...]:
        """The texts of a list as in `all_texts`, without repeated ones."""
        return unique(self.all_texts(*names))

    def optional_texts(self, name: str) -> tuple[str, ...]:
        """The same, but the field may be empty, null or missing."""
        return self.texts(name) if self.fields.get(name) else ()

    def all_texts(self, *names: str) -> tuple[str, ...]:
        """The texts of a list, of a list written as text, or one text; without empty ones."""
        name, value = self._find(names)
        values = self._as_list(name, value) if isinstance(value, str) else value
        if not isinstance(values, Sequence):
            values = [values]
        return tuple(text for item in values if (text := self._as_text(name, item))) or self._refuse_empty(
            names
        )

    def refuse(self, problem: str) -> InputError:
        """The error about this row."""
        return InputError(f"{self.source}, row {self.number}: {problem}")

    def _find(self, names: Sequence[str]) -> tuple[str, Any]:
        present = [name for name in names if name in self.fields]
        if not present:
            either = " or ".join(f"'{name}'" for name in names)
            has = ", ".join(shown(name) for name in self.fields) or "no fields"
            raise self.refuse(f"field {either} is missing; the row has {has}: add or rename it")
        name = next(filter(self.has, present), present[0])
        return name, self.fields[name]

    def _refuse_empty(self, names: Sequence[str]) -> NoReturn:
        raise self.refuse(f"field '{self._find(names)[0]}' is empty; fill it or remove the row")

    def _as_text(self, name: str, value: Any) -> str:
        if _is_null(value):
            return ""
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # whole numbers become floats in a column with gaps
        if not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise self.refuse(f"field '{name}' holds a {kind} where a text is needed; write a text")
        text = str(value).strip()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.refuse(
                f"field '{name}' is not valid Unicode (half a surrogate pair); fix the text"
            ) from None
        return text

    def _as_list(self, name: str, text: str) -> list[Any]:
        if not text.lstrip().startswith("["):
            return [text]
        values = list_of(text)
        if values is None:
            raise self.refuse(
                f"field '{name}' is not a readable list: {shown(text)}; write a JSON list of texts"
            )
        return values


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts in their order, without empty and repeated ones."""
    return tuple(dict.fromkeys(text for text in texts if text))


def with_passages(passages: Sequence[str], question: str) -> str:
    """A question with its passages before it."""
    return "\n\n".join([*passages, f"Question: {question}"]) if passages else question


def _is_null(value: Any) -> bool:
    return value is None or value != value  # in tables, NaN is a gap in numbers
