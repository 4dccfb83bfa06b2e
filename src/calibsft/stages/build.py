"""`build`: make a training set from graded responses."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from calibsft.artifacts import CARD, file_hash, read_manifest
from calibsft.artifacts.lineage import CALIBSFT, WARMUP
from calibsft.errors import InputError
from calibsft.evidence.collect import read_evidence
from calibsft.files.dialect import Dialect
from calibsft.progress import info
from calibsft.publishing import Kind
from calibsft.report.terminal import build_lines
from calibsft.responses.formats import Format, get_format
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName
from calibsft.settings import Mark, Metavar, Seed
from calibsft.stages.common import ColumnNames
from calibsft.stages.graded_rollouts import GradedRollouts, evidence_hashes, require_evidence
from calibsft.stages.published import PublishedStage
from calibsft.stages.stage import Facts
from calibsft.targets import TargetSection, get_target
from calibsft.targets.calibsft import CalibSftSettings
from calibsft.targets.card import TABLES
from calibsft.targets.chat import SFT_CHAT
from calibsft.targets.pool import Pool, pool_of_file
from calibsft.targets.summary import SUMMARY, BuildSummary


def _several(given: Any) -> Any:
    """Python and recipes may give one path, or None."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str | Path) else given


Paths = Annotated[tuple[Path, ...], Mark.CONTENT, Mark.REPEATED, Metavar("FOLDER"), BeforeValidator(_several)]


class BuildStage(PublishedStage):
    """Make a CalibSFT training set from graded responses: sft.parquet, and sft.jsonl in chat format.

    ```sh
    calibsft build responses.csv --out data
    calibsft build rollouts --verdicts verdicts --out data
    calibsft build r-1 r-2 --verdicts v-1 --verdicts v-2 --out data
    ```

    The confidence of each response is replaced by mix × success rate of its question + (1 − mix) × (1 if it is correct,
    else 0). Reasoning and answer stay the same to the byte. `--from-format probability --format integer` also rewrites
    confidences in another format.
    """

    kind: ClassVar[str] = "build"
    main: ClassVar[str] = "targets"
    repository: ClassVar[Kind] = "dataset"
    published: ClassVar[str] = ""
    published_files: ClassVar[Sequence[str]] = (*TABLES.values(), SFT_CHAT, SUMMARY)

    source: Annotated[
        Paths,
        Mark.POSITIONAL,
        Field(
            min_length=1,
            description="CSV, JSONL or Parquet with question_id, question, response, correct; or folders that `calibsft rollout`"
            " wrote",
        ),
    ]
    verdicts: Annotated[
        Paths,
        Field(
            description="folder that `calibsft verify` wrote for these rollouts; give one for each rollout folder, in the same order"
        ),
    ] = ()
    evidence: Annotated[
        Paths,
        Field(
            description="folder that `calibsft evidence` wrote, for targets that need it; give one for each rollout folder"
        ),
    ] = ()
    targets: TargetSection = CalibSftSettings()
    format: FormatName = DEFAULT_FORMAT
    from_format: Annotated[
        FormatName | None,
        Metavar("FORMAT"),
        Field(
            description="how the given responses write their confidence, if not as --format says; default: --format for a file,"
            " the format of the verdicts for a rollout folder"
        ),
    ] = None
    columns: ColumnNames = ()
    seed: Seed = 0

    def look(self) -> None:
        _ = self._dialect  # refuses columns of a folder
        if self._is_run:
            self.inputs()
            self.sampled_format()
        else:
            _ = self._pool

    def inputs(self) -> dict[str, str]:
        if not self._is_run:
            return self._file_inputs()
        return self._folders.inputs()

    def _file_inputs(self) -> dict[str, str]:
        path = self.source[0]
        content = file_hash(path)
        if len(self.evidence) > 1:
            raise InputError(f"{path}: a file has one folder of evidence; give --evidence once")
        for folder in self.evidence:
            require_evidence(folder, "responses", content, path)
        return {"pool": content, **evidence_hashes(self.evidence)}

    def shaped_by(self) -> dict[str, Any]:
        shaping = {**super().shaped_by(), "from_format": self.from_format or self.sampled_format().name}
        return {key: value for key, value in shaping.items() if key != "columns" or value}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.targets.build import build

        written, sampled = get_format(self.format), self.sampled_format()
        names = ", ".join(map(str, self.source))
        evidence = read_evidence(*self.evidence) if self.evidence else None
        summary = build(self._pool, self.targets, written, self.seed, names, folder, sampled, evidence)
        if summary.format != summary.from_format:
            info(f"{label}: confidences rewritten from {summary.from_format} to {summary.format}")
        info(f"{label}: {build_lines(summary)[-1]}")
        imitates = get_target(self.targets.name).imitates
        if not imitates:
            info(
                f"{label}: sft.jsonl holds wrong responses too, and plain SFT on it would imitate their reasoning; use calibsft"
                f" sft, or mask as {folder / CARD} says"
            )
        origin = self._folders.lineage() if self._is_run else {}
        step = WARMUP if imitates else CALIBSFT
        facts = {**origin, "step": step, "rows": summary.rows, "group_size": summary.group_size}
        return {**facts, **self._instruments()}

    def _instruments(self) -> Facts:
        """Which models and rubrics the labels come from, for each folder of evidence."""
        needed = get_target(self.targets.name).evidence
        if not needed:
            return {}
        measured = [read_manifest(folder)["evidence"] for folder in self.evidence]
        return {"evidence": [{name: sources[name] for name in needed} for sources in measured]}

    def results(self, folder: Path) -> dict[str, Any]:
        return BuildSummary.read(folder).to_json()

    def lines(self, folder: Path) -> list[str]:
        return build_lines(BuildSummary.read(folder))

    def sampled_format(self) -> Format:
        """How the responses write their confidence; for rollout folders it must be the format of the verdicts."""
        given = get_format(self.from_format) if self.from_format else None
        return self._folders.format(given) if self._is_run else given or get_format(self.format)

    @property
    def _is_run(self) -> bool:
        """Whether the responses come from rollout folders; a file is alone."""
        folders = [path.is_dir() for path in self.source]
        if len(folders) > 1 and not all(folders):
            raise InputError(
                f"{self.source[folders.index(False)]}: not a rollout folder, and only those can be merged; put the rows of"
                " all files into one"
            )
        return folders[0]

    @property
    def _folders(self) -> GradedRollouts:
        return GradedRollouts(self.source, self.verdicts, self.evidence)

    @property
    def _dialect(self) -> Dialect:
        return Dialect.of(self.columns, sources=self.source)

    @cached_property
    def _pool(self) -> Pool:
        if self._is_run:
            return self._folders.pool()
        single = get_target(self.targets.name).imitates
        return pool_of_file(self.source[0], self.sampled_format(), single, self._dialect)
