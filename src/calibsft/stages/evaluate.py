"""`eval`: sample, verify and score a model on benchmarks."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from calibsft.artifacts import model_inputs
from calibsft.artifacts.lineage import lineage_of
from calibsft.engines import default_engine
from calibsft.estimators import choose_estimators
from calibsft.evaluation import (
    evaluate_model,
    read_budgets,
    read_estimators,
    read_metrics,
    require_benchmarks,
)
from calibsft.evaluation.settings import EvalSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.questions import benchmark_inputs, evaluated_benchmark
from calibsft.report.terminal import evaluation_lines
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.settings import Device, Dtype, Seed
from calibsft.stages.common import Engine, Model
from calibsft.stages.stage import Facts, Stage


class EvalStage(Stage):
    """Evaluate a model on benchmarks or on questions of your own: sample responses, grade them, compute metrics.

    ```sh
    calibsft eval --model sft/model --benchmarks math-500,gsm8k --out eval
    calibsft eval --model sft/model --questions own.jsonl --out eval-own
    ```

    Everything is kept in --out. After a crash or Ctrl-C the same command goes on where it stopped.
    """

    kind: ClassVar[str] = "eval"
    main: ClassVar[str] = "eval"

    model: Model
    eval: EvalSettings = EvalSettings()
    engine: Engine = default_engine()
    judge: JudgeSettings = JudgeSettings()
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    seed: Seed = 0
    device: Device = "auto"
    dtype: Dtype = "auto"

    def check(self) -> None:
        require_benchmarks(self.eval)
        choose_estimators(self.eval.estimators, get_format(self.format))
        for name in self.eval.benchmarks:
            evaluated_benchmark(name)

    def inputs(self) -> dict[str, str]:
        asked = benchmark_inputs(self.eval.benchmarks, self.eval.data_dir)
        return {**model_inputs(self.model), **asked, **self.engine.inputs()}

    def work(self, folder: Path, label: str) -> Facts:
        facts = evaluate_model(
            self.model,
            self.engine,
            self.eval,
            self.judge,
            Prompting(get_format(self.format), self.template),
            self.seed,
            folder,
            self.device,
            self.dtype,
            label,
        )
        return {**lineage_of(self.model), **facts}

    def results(self, folder: Path) -> dict[str, Any]:
        others = {"budgets": read_budgets(folder), "estimators": read_estimators(folder)}
        return {**read_metrics(folder), **others}

    def lines(self, folder: Path) -> list[str]:
        return evaluation_lines(self.results(folder))
