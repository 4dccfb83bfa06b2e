"""What a stage is: settings that shape its result, what it reads, its work, and what its folder then says.

`calibsft run`, the single command and the Python API perform the same object, so they write the same folder, resume and
refuse alike. Knows no stage by name: they are listed in `calibsft.stages.STAGES`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic.fields import FieldInfo

from calibsft.artifacts import StageFolder
from calibsft.errors import unknown_name
from calibsft.graded import older_grader
from calibsft.hub import prepare_model
from calibsft.progress import require_one_process
from calibsft.settings import Mark, Settings, apply_override, validated
from calibsft.settings.options import Option, nested, options_of

Facts = dict[str, Any]


class Stage(Settings):
    """One unit of work that leaves a folder behind.

    Fields marked `ADJUSTABLE` do not shape the result; of those marked `CONTENT` the content counts and not the name.
    """

    kind: ClassVar[str]
    main: ClassVar[str] = ""  # the section whose options need no prefix
    shared: ClassVar[bool] = False  # whether several processes of a launcher do it together

    @classmethod
    def options(cls) -> list[Option]:
        """What can be given on the command line or by keyword."""
        return options_of(cls, cls.main)

    @classmethod
    def of(cls, given: Mapping[str, Any], overrides: Sequence[str] = ()) -> Self:
        """The stage with these options, and dotted keys of its main section or of the whole stage."""
        options = cls.options()
        _refuse_unknown(given, [option.name for option in options], list(cls.model_fields))
        sections = {name: value for name, value in given.items() if isinstance(value, Settings | dict)}
        data = {**nested(options, {**given, **dict.fromkeys(sections)}), **sections}
        for override in overrides:
            apply_override(data, cls._whole_key(override))
        return validated(cls, data, cls.kind)

    @classmethod
    def _whole_key(cls, override: str) -> str:
        first = override.partition("=")[0].partition(".")[0]
        return f"{cls.main}.{override}" if cls.main and first not in cls.model_fields else override

    def check(self) -> None:
        """Refuse settings that do not go together; what the stage reads need not be there yet."""

    def look(self) -> None:
        """Refuse what the stage reads if it cannot be used, before the folder is begun."""

    def inputs(self) -> dict[str, str]:
        """What identifies the content that the stage reads, by name."""
        return {}

    def reads(self) -> tuple[Path, ...]:
        """The files and folders that it reads, of those that other stages may have made."""
        values = [getattr(self, name) for name in self._marked(Mark.CONTENT)]
        return tuple(path for value in values if value is not None and (path := Path(value)).exists())

    def shaped_by(self) -> dict[str, Any]:
        """The settings that shape the result, as plain data."""
        return _shaping(self, self.model_dump(mode="json"))

    def work(self, folder: Path, label: str) -> Facts:
        """Fill `folder` and return facts for its manifest; progress lines call the work `label`."""
        raise NotImplementedError

    def results(self, folder: Path) -> dict[str, Any]:
        """What the finished folder says, as plain data."""
        return {}

    def lines(self, folder: Path) -> list[str]:
        """The same in words, for people."""
        return []

    def folder(self, path: Path, label: str = "") -> StageFolder:
        """The folder of this stage at `path`, with everything that identifies its content."""
        return StageFolder(
            path, self.kind, self.shaped_by(), self.inputs(), self.reads(), older_grader, label or self.kind
        )

    def perform(
        self,
        path: Path,
        label: str = "",
        fresh: bool = False,
        hash_check: bool = True,
        patience: float = 0.0,
        again: bool = False,
    ) -> None:
        """Do the stage in `path` unless it is done there already; see `StageFolder.perform`."""
        if not self.shared:
            require_one_process(self.kind)
        self.check()
        self.look()
        work = self._worker(label or self.kind)
        self.folder(path, label).perform(work, fresh, hash_check, patience, again)

    def _worker(self, label: str) -> Callable[[Path], Facts]:
        def work(folder: Path) -> Facts:
            # Here, and not where the model is loaded: until then libraries are imported for seconds.
            if "model" in type(self).model_fields:
                prepare_model(getattr(self, "model"))  # noqa: B009
            return self.work(folder, label)

        return work

    @classmethod
    def _marked(cls, mark: Mark) -> list[str]:
        return [name for name, field in cls.model_fields.items() if mark in _marks(field)]


def _refuse_unknown(given: Mapping[str, Any], options: list[str], fields: list[str]) -> None:
    for name in given:
        if name not in options and name not in fields:
            unknown_name("option", name, options)


def _shaping(settings: Settings, data: dict[str, Any]) -> dict[str, Any]:
    """`data` without what does not shape the result, and without paths whose content does, in all sections."""
    found = {}
    for name, value in data.items():
        if {Mark.ADJUSTABLE, Mark.CONTENT} & {*_marks(type(settings).model_fields[name])}:
            continue
        inner = getattr(settings, name)
        found[name] = _shaping(inner, value) if isinstance(inner, Settings) else value
    return found


def _marks(field: FieldInfo) -> list[Mark]:
    return [mark for mark in field.metadata if isinstance(mark, Mark)]
