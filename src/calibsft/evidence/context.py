"""What measuring evidence needs: settings, a verifier, and an embedder and a judge, which are loaded at first use."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibsft.judge.judge import Judge, load_judge
from calibsft.judge.rubric import Rubric, V
from calibsft.progress import Progress

if TYPE_CHECKING:
    from calibsft.evidence.embedder import Embedder
    from calibsft.evidence.settings import EvidenceSettings
    from calibsft.judge.settings import JudgeSettings
    from calibsft.verify.verifier import Verifier


@dataclass(eq=False)
class Context:
    """One context serves all shards, so that a model is loaded once.

    `cache` is the file of the judge's replies, and `progress` counts values. `report` takes how many rows of the shard are
    measured so far; a slow measure should call it.
    """

    settings: "EvidenceSettings"
    judge_settings: "JudgeSettings"
    cache: Path
    device: str
    dtype: str
    verifier: "Verifier"
    progress: Progress

    def __post_init__(self) -> None:
        self._judges: dict[str, Judge[Any]] = {}
        self.report = self.progress.counter()

    @cached_property
    def embedder(self) -> "Embedder":
        """The encoder of `settings.embedding_model`."""
        from calibsft.evidence.embedder import Embedder

        assert self.settings.embedding_model is not None, "its evidence refuses such settings"
        return Embedder(self.settings.embedding_model, self.device, self.dtype, self.settings.batch_size)

    def judge(self, rubric: Rubric[V]) -> Judge[V]:
        """The judge that is asked by `rubric`."""
        if rubric.name not in self._judges:
            loaded = load_judge(self.judge_settings, rubric, self.cache, self.device, self.dtype)
            assert loaded is not None, "its evidence refuses such settings"
            self._judges[rubric.name] = loaded
        return self._judges[rubric.name]

    def finish_column(self, rows: int) -> None:
        """Count a shard's column as measured."""
        self.report(rows)
        self.report = self.progress.counter()
