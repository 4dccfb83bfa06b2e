"""`report`: the page of a run, from its finished stages."""

from pathlib import Path
from typing import Annotated, ClassVar

from calibsft.artifacts import read_manifest
from calibsft.settings import Mark
from calibsft.stages.stage import Facts, Stage


class ReportStage(Stage):
    """Write the page of a run: tables, figures, every response.

    `last` are the stages that no other stage reads.
    """

    kind: ClassVar[str] = "report"

    root: Annotated[Path, Mark.ADJUSTABLE]
    name: str
    last: Annotated[tuple[str, ...], Mark.ADJUSTABLE]
    responses: Annotated[int | None, Mark.ADJUSTABLE] = None

    def inputs(self) -> dict[str, str]:
        return {stage: str(read_manifest(self.root / stage)["content_hash"]) for stage in self.last}

    def reads(self) -> tuple[Path, ...]:
        return tuple(self.root / stage for stage in self.last)

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.report.page import write_report
        from calibsft.report.responses import RESPONSES
        from calibsft.report.runs import summarise

        most = RESPONSES if self.responses is None else self.responses
        write_report(summarise(self.root, most), folder)
        return {}
