"""`evidence`: measure the evidence that targets, estimators and reports need."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from calibsft.artifacts import file_hash, read_manifest
from calibsft.errors import InputError
from calibsft.evidence import EVIDENCE
from calibsft.evidence.collect import choose_evidence, collect_evidence
from calibsft.evidence.parts import file_parts, run_parts
from calibsft.evidence.settings import EvidenceSettings
from calibsft.files.dialect import Dialect
from calibsft.judge.settings import JudgeSettings
from calibsft.settings import Device, Dtype, Mark
from calibsft.stages.common import ColumnNames, verified
from calibsft.stages.stage import Facts, Stage


class EvidenceStage(Stage):
    """Measure more about every response than its verdict, such as its log-probability, for targets that need it.

    ```sh
    calibsft evidence rollouts --verdicts v --names mean-logprob --out e
    calibsft build rollouts --verdicts v --evidence e --target uait --out data
    calibsft evidence pool.csv --names cluster-share --embedding-model M --out e
    calibsft build pool.csv --evidence e --target sayself --out data
    ```

    `calibsft ls evidence` describes every kind of evidence.
    """

    kind: ClassVar[str] = "evidence"
    main: ClassVar[str] = "evidence"

    rollouts: Annotated[
        Path,
        Mark.CONTENT,
        Mark.POSITIONAL,
        Field(
            description="folder that `calibsft rollout` wrote; or CSV, JSONL or Parquet with question_id, question, response (and"
            " for mean-logprob mean_logprob)"
        ),
    ]
    verdicts: Annotated[
        Path | None,
        Mark.CONTENT,
        Field(description="folder that `calibsft verify` wrote for these rollouts; a file needs none"),
    ] = None
    names: Annotated[
        tuple[str, ...],
        Field(min_length=1, description=f"what to measure, comma-separated: {', '.join(EVIDENCE)}"),
    ]
    evidence: EvidenceSettings = EvidenceSettings()
    judge: JudgeSettings = JudgeSettings()
    columns: ColumnNames = ()
    device: Device = "auto"
    dtype: Dtype = "auto"

    def check(self) -> None:
        choose_evidence(self.names, self.evidence, self.judge)

    def look(self) -> None:
        _ = self._dialect

    def inputs(self) -> dict[str, str]:
        if self.rollouts.is_dir():
            return verified(self.rollouts, self._verdicts)
        content = file_hash(
            self.rollouts
        )  # refuses a path that leads nowhere, before anything else is said of it
        if self.verdicts:
            raise InputError(f"{self.rollouts}: a file of responses needs no verdicts; leave --verdicts out")
        return {"responses": content}

    def shaped_by(self) -> dict[str, Any]:
        return {key: value for key, value in super().shaped_by().items() if key != "columns" or value}

    def work(self, folder: Path, label: str) -> Facts:
        is_run = self.rollouts.is_dir()
        parts = (
            run_parts(self.rollouts, self._verdicts) if is_run else file_parts(self.rollouts, self._dialect)
        )
        facts = collect_evidence(
            self.names, parts, self.evidence, folder, label, self.judge, self.device, self.dtype
        )
        return {**facts, "lineage": read_manifest(self.rollouts)["lineage"]} if is_run else facts

    @property
    def _verdicts(self) -> Path:
        if self.verdicts is None:
            raise InputError(
                f"{self.rollouts}: rollouts need their verdicts; give the folder of `calibsft verify` as --verdicts"
            )
        return self.verdicts

    @property
    def _dialect(self) -> Dialect:
        return Dialect.of(self.columns, sources=(self.rollouts,))

    def lines(self, folder: Path) -> list[str]:
        found = read_manifest(folder)
        return [
            f"{name}: {count:,} of {found['responses']:,} responses"
            for name, count in found["measured"].items()
        ]
