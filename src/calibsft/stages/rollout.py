"""`rollout`: sample responses from a model, n per question."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from calibsft.artifacts import file_hash, model_inputs
from calibsft.artifacts.lineage import lineage_of
from calibsft.engines import default_engine, load_engine
from calibsft.questions import QuestionSettings, asked_questions, source_hash
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting, Shot
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.rollouts.settings import RolloutSettings, Shard
from calibsft.rollouts.shots import read_shots
from calibsft.rollouts.usage import read_usage
from calibsft.settings import Device, Dtype, Seed
from calibsft.stages.common import Engine, Model
from calibsft.stages.stage import Facts, Stage


class RolloutStage(Stage):
    """Sample responses from a model, several per question.

    ```sh
    calibsft rollout --model M --questions train.csv -n 8 --out rollouts
    calibsft rollout --model M --url URL --benchmark gsm8k --out rollouts
    ```

    With vLLM on a GPU, add --engine vllm. A model on a server: its address is the URL, e.g. http://localhost:8000/v1. Several machines: give each a --shard, then run `calibsft merge`.
    """

    kind: ClassVar[str] = "rollout"
    main: ClassVar[str] = "rollout"

    model: Model
    questions: QuestionSettings
    rollout: RolloutSettings = RolloutSettings()
    engine: Engine = default_engine()
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    seed: Seed = 0
    shard: Shard = None
    device: Device = "auto"
    dtype: Dtype = "auto"

    def check(self) -> None:
        self._shots()

    def inputs(self) -> dict[str, str]:
        asked = {"questions": source_hash(self.questions.source, self.questions.data_dir)}
        shown = {"shots": file_hash(self.rollout.shots)} if self.rollout.shots else {}
        return {**asked, **shown, **model_inputs(self.model), **self.engine.inputs()}

    def work(self, folder: Path, label: str) -> Facts:
        questions = asked_questions(self.questions)
        from calibsft.rollouts.collect import make_collector

        engine = load_engine(self.engine, self.model, self.device, self.dtype)
        prompting = Prompting(get_format(self.format), self.template, self._shots())
        collector = make_collector(engine, prompting, self.rollout, self.seed)
        tokens = collector.collect(
            questions, lambda _: self.rollout.samples, folder, self.rollout.shard_questions, label, self.shard
        )
        facts = {"tokens": tokens, "device": collector.engine.device, "questions": len(questions)}
        paid = {"usage": used} if (used := read_usage(folder)) else {}
        return {**lineage_of(self.model), **facts, **paid}

    def _shots(self) -> tuple[Shot, ...]:
        return read_shots(self.rollout.shots, get_format(self.format)) if self.rollout.shots else ()
