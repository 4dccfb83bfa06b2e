"""The strong model's side of a route: the questions of an evaluation, asked once each and graded."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from calibsft.artifacts import JUDGE_CACHE, model_inputs, read_manifest, recorded_settings
from calibsft.engines import default_engine, load_engine
from calibsft.evaluation import evaluate_with
from calibsft.evaluation.same_questions import SameQuestions
from calibsft.evaluation.settings import EvalSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.settings import Device, Dtype, Mark, Seed
from calibsft.stages.common import Engine, Model
from calibsft.stages.stage import Facts, Stage
from calibsft.verify.judged import load_answer_judge


class StrongStage(Stage):
    """Ask a strong model the questions of a local model's evaluation, in the same format; an evaluation like any other."""

    kind: ClassVar[str] = "eval"
    main: ClassVar[str] = "eval"

    local: Annotated[Path, Mark.CONTENT, Field(description="the local model's evaluation")]
    model: Model
    eval: EvalSettings = EvalSettings()
    engine: Engine = default_engine()
    judge: JudgeSettings = JudgeSettings()
    seed: Seed = 0
    device: Device = "auto"
    dtype: Dtype = "auto"

    def shaped_by(self) -> dict[str, Any]:
        return {**super().shaped_by(), "format": self._format()}

    def look(self) -> None:
        SameQuestions(self.local)

    def inputs(self) -> dict[str, str]:
        asked = {"local": str(read_manifest(self.local)["content_hash"])}
        return {**asked, **model_inputs(self.model), **self.engine.inputs()}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.rollouts.collect import make_collector

        engine = load_engine(self.engine, self.model, self.device, self.dtype)
        prompting = Prompting(get_format(self._format()))
        collector = make_collector(engine, prompting, self.eval, self.seed)
        judge = load_answer_judge(self.judge, folder / JUDGE_CACHE, self.device, self.dtype)
        facts = evaluate_with(collector, self.eval, folder, label, SameQuestions(self.local), judge)
        return {"model": self.model, "lineage": [], **facts}

    def _format(self) -> str:
        return str(recorded_settings(self.local)["format"])
