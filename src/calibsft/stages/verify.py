"""`verify`: parse and grade responses."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from calibsft.artifacts import JUDGE_CACHE, file_hash
from calibsft.files.dialect import Dialect
from calibsft.graded import VERIFIER
from calibsft.judge.settings import JudgeSettings
from calibsft.progress import warn
from calibsft.report.terminal import verdict_lines
from calibsft.responses.formats import get_format
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName
from calibsft.settings import Device, Dtype, Mark
from calibsft.stages.common import ColumnNames, ScaleName, rollouts_hash
from calibsft.stages.stage import Facts, Stage
from calibsft.verify.judged import load_answer_judge
from calibsft.verify.verdicts import count_verdicts, verify_responses

# With an accuracy outside these bounds, nearly all targets of CalibSFT lie at one end.
TEACHING = (0.05, 0.95)


class VerifyStage(Stage):
    """Parse responses, and grade their answers against the golds.

    ```sh
    calibsft verify rollouts --out verdicts
    calibsft verify responses.jsonl --columns gold=target --out verdicts
    ```

    Every response gets a grade: correct, incorrect, unparsed_answer, timeout, too_large or error. Two other grades leave it
    out of all metrics: unparsed_gold and unjudged. `calibsft ls graders` lists the graders that the column `kind` can name.
    To grade an evaluation again without sampling, verify the folder `rollouts` in it with another --out.
    """

    kind: ClassVar[str] = "verify"

    responses: Annotated[
        Path,
        Mark.CONTENT,
        Mark.POSITIONAL,
        Field(
            description="folder that `calibsft rollout` wrote; CSV, JSONL or Parquet with question_id, response, gold (and optionally"
            " kind, tolerance, question, answer, confidence, dataset, sample, finished); or a log of chats, Inspect or"
            " lm-evaluation-harness"
        ),
    ]
    format: FormatName = DEFAULT_FORMAT
    columns: ColumnNames = ()
    scale: ScaleName = None
    judge: JudgeSettings = JudgeSettings()
    device: Device = "auto"
    dtype: Dtype = "auto"

    def look(self) -> None:
        _ = self._dialect

    def inputs(self) -> dict[str, str]:
        if self.responses.is_dir():
            return {"rollout": rollouts_hash(self.responses)}
        return {"responses": file_hash(self.responses)}

    def shaped_by(self) -> dict[str, Any]:
        used = {"dtype": bool(self.judge.model), "columns": bool(self.columns), "scale": bool(self.scale)}
        return {key: value for key, value in super().shaped_by().items() if used.get(key, True)}

    def work(self, folder: Path, label: str) -> Facts:
        judge = load_answer_judge(self.judge, folder / JUDGE_CACHE, self.device, self.dtype)
        graders = verify_responses(
            self.responses, get_format(self.format), folder, label, judge, self._dialect
        )
        accuracy = self.results(folder)["overall"]["correct"]
        low, high = TEACHING
        if accuracy is None:
            warn(f"{label}: no gold answer could be read, so nothing is graded; fix the gold answers")
        elif not low <= accuracy <= high:
            warn(
                f"{label}: {accuracy:.1%} of the responses are right, so nearly all target confidences lie at one end"
            )
        return {VERIFIER: graders, "accuracy": accuracy}

    @property
    def _dialect(self) -> Dialect:
        return Dialect.of(self.columns, self.scale, [self.responses])

    def results(self, folder: Path) -> dict[str, Any]:
        return count_verdicts(folder)

    def lines(self, folder: Path) -> list[str]:
        return verdict_lines(self.results(folder))
