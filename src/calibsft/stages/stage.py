"""What a stage is: settings that shape its result, inputs, work, and results.

`calibsft run`, the single command and the Python API perform the same object, so all three write the same folder, resume
and refuse in the same way. Knows no stage by name: they are listed in `calibsft.stages.STAGES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

from calibsft.artifacts import StageFolder
from calibsft.errors import unknown_name
from calibsft.graded import older_grader
from calibsft.hub import prepare_model, recording_commits
from calibsft.progress import require_one_process
from calibsft.settings import Mark, Settings, apply_override, validated
from calibsft.settings.options import Option, nested, options_of

Facts = dict[str, Any]


class Stage(Settings, ABC):
    """One unit of work that leaves a folder.

    Fields marked `ADJUSTABLE` do not shape the result. Of a path marked `CONTENT`, the content shapes it, not the name.
    """

    kind: ClassVar[str]
    main: ClassVar[str] = ""  # the section whose options need no prefix
    shared: ClassVar[bool] = False  # whether several processes of a launcher share the work

    @classmethod
    def options(cls) -> list[Option]:
        """The options that the command line takes as flags and Python as keywords."""
        return options_of(cls, cls.main)

    @classmethod
    def of(cls, given: Mapping[str, Any], overrides: Sequence[str] = ()) -> Self:
        """The stage with these options and overrides, which are dotted keys of its main section or of the whole stage."""
        options = cls.options()
        names = [option.name for option in options]
        for name in given:
            if name not in names and name not in cls.model_fields:
                unknown_name("option", name, names)
        sections = {
            name: value
            for name, value in given.items()
            if name in cls.model_fields and isinstance(value, Settings | dict)
        }
        data = {**nested(options, {**given, **dict.fromkeys(sections)}), **sections}
        for override in overrides:
            apply_override(data, cls._whole_key(override))
        return validated(cls, data, cls.kind)

    @classmethod
    def _whole_key(cls, override: str) -> str:
        first = override.partition("=")[0].partition(".")[0]
        return f"{cls.main}.{override}" if cls.main and first not in cls.model_fields else override

    def check(self) -> None:
        """Refuse settings that do not fit together; the inputs need not exist yet."""

    def look(self) -> None:
        """Refuse unusable inputs, before the folder is made."""

    def before(self) -> None:
        """Do what comes before the work, also if the stage was done before."""

    def after(self, path: Path) -> None:
        """Do what comes after the work, also if the stage was done before."""

    def inputs(self) -> dict[str, str]:
        """What identifies the content that the stage reads, by name."""
        return {}

    def reads(self) -> tuple[Path, ...]:
        """The existing files and folders that it reads, which other stages may have made."""
        fields = type(self).model_fields.items()
        values = [getattr(self, name) for name, field in fields if Mark.CONTENT in field.metadata]
        given = [value if isinstance(value, tuple) else (value,) for value in values if value is not None]
        return tuple(path for value in chain.from_iterable(given) if (path := Path(value)).exists())

    def shaped_by(self) -> dict[str, Any]:
        """The settings that shape the result, as plain data."""
        return _shaping(self, self.model_dump(mode="json"))

    def identity(self) -> dict[str, Any]:
        """What decides the result: settings and the content of inputs, as plain data."""
        return {**self.shaped_by(), "inputs": self.inputs()}

    @abstractmethod
    def work(self, folder: Path, label: str) -> Facts:
        """Fill `folder` and return facts for its manifest; progress lines call the work `label`."""

    def results(self, folder: Path) -> dict[str, Any]:
        """The results in the finished folder, as plain data."""
        return {}

    def lines(self, folder: Path) -> list[str]:
        """The results as lines of text, for people; of a training, where its checkpoint is."""
        return [f"checkpoint: {folder / 'model'}"] if (folder / "model").is_dir() else []

    def folder(self, path: Path, label: str = "") -> StageFolder:
        """The folder of this stage at `path`, with the settings and inputs that identify its content."""
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
        """Do the stage in `path` unless it is finished there; see `StageFolder.perform`."""
        if not self.shared:
            require_one_process(self.kind)
        self.check()
        self.look()
        self.before()
        work = partial(self._prepared_work, label=label or self.kind)
        self.folder(path, label).perform(work, fresh, hash_check, patience, again)
        self.after(path)

    def _prepared_work(self, folder: Path, label: str) -> Facts:
        # A model that cannot be used is refused here, before libraries are imported for seconds.
        model, engine = getattr(self, "model", None), getattr(self, "engine", None)
        if model is not None:
            prepare_model(engine.checkpoint(model) if engine else model)
        with recording_commits() as commits:
            facts = self.work(folder, label)
        return {**facts, "hub": commits} if commits else facts


def _shaping(settings: Settings, data: dict[str, Any]) -> dict[str, Any]:
    """`data` without fields marked `ADJUSTABLE` or `CONTENT`, in all sections."""
    found = {}
    for name, value in data.items():
        marks = type(settings).model_fields[name].metadata
        if Mark.ADJUSTABLE in marks or Mark.CONTENT in marks:
            continue
        inner = getattr(settings, name)
        found[name] = _shaping(inner, value) if isinstance(inner, Settings) else value
    return found
