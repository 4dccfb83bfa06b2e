"""`rl`: confidence-aware RL from a model and questions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from calibsft.artifacts import JUDGE_CACHE, file_hash, model_inputs, read_manifest
from calibsft.artifacts.lineage import trained, with_variant
from calibsft.engines import default_engine, require_trainable
from calibsft.errors import InputError
from calibsft.evaluation.settings import EvalSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.questions import benchmark_inputs, evaluated_benchmark
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.rl.methods import MethodSection, get_method
from calibsft.settings import Device, Mark, Seed
from calibsft.stages.common import Engine, Model, Variant, Verdicts
from calibsft.stages.published import PublishedStage
from calibsft.stages.stage import Facts
from calibsft.verify.judged import load_answer_judge


class RlStage(PublishedStage):
    """Train a model by RL, with a reward for right answers and calibrated confidence.

    ```sh
    calibsft rl --method rlcr --model sft/model --data train.csv --out rl
    accelerate launch -m calibsft rl --method coca --model M --data d --out rl
    ```

    RLCR, CoCA and DCPO are the usual methods. Start them from a model that `calibsft sft` has trained, because RL learns
    only from confidence values that the model already states. C3RL needs --format integer. ReDoubt trains confidence alone;
    start it from a model that RLVR has trained. The defaults are the paper's.
    """

    kind: ClassVar[str] = "rl"
    main: ClassVar[str] = "rl"
    shared: ClassVar[bool] = True

    model: Model
    rl: MethodSection
    data: Annotated[
        Path,
        Mark.CONTENT,
        Field(
            description="questions: CSV, JSONL or Parquet with question_id, question, gold (and optionally kind, success_rate), or a"
            " folder that `calibsft rollout` wrote"
        ),
    ]
    verdicts: Verdicts = None
    engine: Engine = default_engine()
    eval: EvalSettings = EvalSettings()
    judge: JudgeSettings = JudgeSettings()
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    seed: Seed = 0
    device: Device = "auto"
    variant: Variant = ""

    @classmethod
    def of(cls, given: Mapping[str, Any], overrides: Sequence[str] = ()) -> Self:
        stage = super().of(given, overrides)
        if stage.eval.benchmarks and not stage.rl.eval_every:
            raise InputError("benchmarks mean nothing without --eval-every; give both, as in --eval-every 20")
        return stage

    def check(self) -> None:
        super().check()
        get_method(self.rl.name).require_format(get_format(self.format))
        if self.rl.policy == "trainer":
            require_trainable(self.engine)
        for name in self.eval.benchmarks:
            evaluated_benchmark(name)
        if self.rl.eval_every and not self.eval.benchmarks:
            raise InputError("rl.eval_every needs benchmarks to evaluate on; name some with --benchmarks")

    def inputs(self) -> dict[str, str]:
        data = read_manifest(self.data)["content_hash"] if self.data.is_dir() else file_hash(self.data)
        rates = {"verdicts": read_manifest(self.verdicts)["content_hash"]} if self.verdicts else {}
        watched = benchmark_inputs(self.eval.benchmarks, self.eval.data_dir) if self.rl.eval_every else {}
        return {"data": data, **rates, **watched, **model_inputs(self.model)}

    def shaped_by(self) -> dict[str, Any]:
        unused = {"eval": not self.rl.eval_every, "judge": not self.judge.model}
        return {key: value for key, value in super().shaped_by().items() if not unused.get(key)}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.rl.questions import read_questions
        from calibsft.rl.train import train_policy

        questions, rates = read_questions(self.data, self.verdicts)
        facts = train_policy(
            self.model,
            questions,
            rates,
            self.rl,
            Prompting(get_format(self.format), self.template),
            self.seed,
            folder,
            self.device,
            self.eval,
            label,
            load_answer_judge(self.judge, folder / JUDGE_CACHE, self.device),
            self.engine,
            self.identity(),
        )
        step = with_variant(self.rl.name, self.variant)
        return {"model": self.model, **trained(self.model, step, self.seed), **facts}
