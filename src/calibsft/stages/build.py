"""`build`: make a training set from graded responses."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from calibsft.artifacts import CARD, file_hash, read_manifest, recorded_settings
from calibsft.errors import InputError
from calibsft.progress import info
from calibsft.responses.formats import Format, get_format
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName
from calibsft.settings import Mark, Seed
from calibsft.stages.common import Verdicts, verified
from calibsft.stages.stage import Facts, Stage
from calibsft.targets import TargetSection
from calibsft.targets.calibsft import CalibSftSettings

if TYPE_CHECKING:
    from calibsft.targets.pool import Pool


class BuildStage(Stage):
    """Turn graded responses into a CalibSFT training set: sft.parquet and sft.jsonl (chat format).

    Each response's confidence is replaced by mix * (its question's success rate) + (1 - mix) * (is it correct);
    reasoning and answer stay byte-identical. Responses of one format make a training set in another:
    `--from-format probability --format integer`.
    """

    kind: ClassVar[str] = "build"
    main: ClassVar[str] = "targets"

    source: Annotated[
        Path,
        Mark.CONTENT,
        Mark.POSITIONAL,
        Field(
            description="CSV, JSONL or Parquet with question_id, question, response, correct; or a rollout folder"
        ),
    ]
    verdicts: Verdicts = None
    evidence: Annotated[
        Path | None,
        Mark.CONTENT,
        Field(description="folder that `calibsft evidence` wrote, for targets that need it"),
    ] = None
    targets: TargetSection = CalibSftSettings()
    format: FormatName = DEFAULT_FORMAT
    from_format: Annotated[
        FormatName | None,
        Field(
            description="how the responses write their confidence, where --format is another; default: --format for a"
            " file, the verdicts' own for a rollout folder"
        ),
    ] = None
    seed: Seed = 0

    def look(self) -> None:
        if self.source.is_dir():
            self.inputs()
            self.sampled_format()
        else:
            _ = self._pool

    def inputs(self) -> dict[str, str]:
        if not self.source.is_dir():
            return {"pool": file_hash(self.source)}
        measured = {"evidence": read_manifest(self.evidence)["content_hash"]} if self.evidence else {}
        return {**verified(self.source, self._verdicts()), **measured}

    def shaped_by(self) -> dict[str, Any]:
        return {**super().shaped_by(), "from_format": self.from_format or self.sampled_format().name}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.evidence.collect import read_evidence
        from calibsft.report.terminal import build_lines
        from calibsft.targets.build import build

        written = get_format(self.format)
        summary = build(
            self._pool,
            self.targets,
            written,
            self.seed,
            str(self.source),
            folder,
            self.sampled_format(),
            read_evidence(self.evidence) if self.evidence else None,
        )
        if summary.format != summary.from_format:
            info(f"{label}: confidences rewritten from {summary.from_format} to {summary.format}")
        info(f"{label}: {build_lines(summary)[-1]}")
        info(
            f"{label}: sft.jsonl holds wrong responses too, and plain SFT on it would imitate their reasoning; use calibsft"
            f" sft, or mask as {folder / CARD} says"
        )
        sampled = read_manifest(self.source) if self.source.is_dir() else {}
        origin: Facts = {key: sampled[key] for key in ("lineage", "training_seed") if key in sampled}
        return {**origin, "rows": summary.rows, "group_size": summary.group_size}

    def results(self, folder: Path) -> dict[str, Any]:
        from calibsft.targets.summary import BuildSummary

        return BuildSummary.read(folder).to_json()

    def lines(self, folder: Path) -> list[str]:
        from calibsft.report.terminal import build_lines
        from calibsft.targets.summary import BuildSummary

        return build_lines(BuildSummary.read(folder))

    def sampled_format(self) -> Format:
        """How the responses write their confidence; for a rollout folder it must be the format of the verdicts."""
        given = get_format(self.from_format) if self.from_format else None
        if not self.source.is_dir():
            return given or get_format(self.format)
        verdicts = self._verdicts()
        graded = get_format(recorded_settings(verdicts)["format"])
        if given is not None and given != graded:
            raise InputError(
                f"{verdicts}: these verdicts are for the format '{graded.name}', not '{given.name}'; leave --from-format out,"
                f" or run calibsft verify with --format {given.name}"
            )
        return graded

    @cached_property
    def _pool(self) -> "Pool":
        from calibsft.targets.pool import pool_of_file, pool_of_run

        if self.source.is_dir():
            return pool_of_run(self.source, self._verdicts())
        return pool_of_file(self.source, self.sampled_format())

    def _verdicts(self) -> Path:
        if self.verdicts is None:
            raise InputError(
                f"{self.source}: a rollout folder needs its verdicts; add --verdicts with the folder that calibsft verify wrote"
            )
        return self.verdicts
