"""`rollout`: sample responses from a model, n per question."""

from pathlib import Path
from typing import ClassVar

from calibsft.artifacts import model_inputs
from calibsft.artifacts.lineage import lineage_of
from calibsft.engines import default_engine, load_engine
from calibsft.questions import QuestionSettings, load_source, source_hash
from calibsft.responses.formats import get_format
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName
from calibsft.rollouts.settings import RolloutSettings
from calibsft.settings import Device, Dtype, Seed
from calibsft.stages.common import Engine, Model
from calibsft.stages.stage import Facts, Stage


class RolloutStage(Stage):
    """Sample responses from a model, n per question, into Parquet shards."""

    kind: ClassVar[str] = "rollout"
    main: ClassVar[str] = "rollout"

    model: Model
    questions: QuestionSettings
    rollout: RolloutSettings = RolloutSettings()
    engine: Engine = default_engine()
    format: FormatName = DEFAULT_FORMAT
    seed: Seed = 0
    device: Device = "auto"
    dtype: Dtype = "auto"

    def inputs(self) -> dict[str, str]:
        asked = source_hash(self.questions.source, self.questions.data_dir)
        return {"questions": asked, **model_inputs(self.model), **self.engine.inputs()}

    def work(self, folder: Path, label: str) -> Facts:
        questions = load_source(self.questions.source, self.questions.data_dir)[: self.questions.limit]
        from calibsft.rollouts.collect import make_collector

        engine = load_engine(self.engine, self.model, self.device, self.dtype)
        collector = make_collector(engine, get_format(self.format), self.rollout, self.seed)
        tokens = collector.collect(
            questions, lambda _: self.rollout.samples, folder, self.rollout.shard_questions, label
        )
        facts = {"tokens": tokens, "device": collector.engine.device, "questions": len(questions)}
        return {**lineage_of(self.model), **facts}
