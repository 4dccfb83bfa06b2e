"""`evidence`: measure the evidence that targets, estimators and reports need."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from calibsft.artifacts import read_manifest
from calibsft.evidence import EVIDENCE
from calibsft.evidence.collect import choose_evidence, collect_evidence
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.settings import Device, Dtype, Mark
from calibsft.stages.common import verified
from calibsft.stages.stage import Facts, Stage


class EvidenceStage(Stage):
    """Measure more about every response than its verdict, such as its log-probability, for targets that need it.

    ```sh
    calibsft evidence rollouts --verdicts v --names mean-logprob --out e
    calibsft build rollouts --verdicts v --evidence e --target uait --out data
    ```

    `calibsft ls evidence` describes every kind of evidence.
    """

    kind: ClassVar[str] = "evidence"
    main: ClassVar[str] = "evidence"

    rollouts: Annotated[
        Path, Mark.CONTENT, Mark.POSITIONAL, Field(description="folder that `calibsft rollout` wrote")
    ]
    verdicts: Annotated[
        Path, Mark.CONTENT, Field(description="folder that `calibsft verify` wrote for these rollouts")
    ]
    names: Annotated[
        tuple[str, ...],
        Field(min_length=1, description=f"what to measure, comma-separated: {', '.join(EVIDENCE)}"),
    ]
    evidence: EvidenceSettings = EvidenceSettings()
    judge: JudgeSettings = JudgeSettings()
    device: Device = "auto"
    dtype: Dtype = "auto"

    def check(self) -> None:
        choose_evidence(self.names, self.evidence, self.judge)

    def inputs(self) -> dict[str, str]:
        return verified(self.rollouts, self.verdicts)

    def work(self, folder: Path, label: str) -> Facts:
        facts = collect_evidence(
            self.names,
            self.rollouts,
            self.verdicts,
            self.evidence,
            folder,
            label,
            self.judge,
            self.device,
            self.dtype,
        )
        return {**facts, "lineage": read_manifest(self.rollouts)["lineage"]}

    def lines(self, folder: Path) -> list[str]:
        found = read_manifest(folder)
        return [
            f"{name}: {count:,} of {found['responses']:,} responses"
            for name, count in found["measured"].items()
        ]
