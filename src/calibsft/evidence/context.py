"""What measures of evidence work with: settings, a verifier, and an embedder and a judge, loaded when first used."""

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


class Context:
    """The same for all shards, so that a model is loaded once.

    Parameters
    ----------
    settings, judge
        How to measure, and the judge.
    cache
        The file of the judge's replies.
    device, dtype
        Where and how models are loaded; "auto" is the first GPU, else the CPU.
    verifier
        Compares answers.
    progress
        Counts values.
    """

    def __init__(
        self,
        settings: "EvidenceSettings",
        judge: "JudgeSettings",
        cache: Path,
        device: str,
        dtype: str,
        verifier: "Verifier",
        progress: Progress,
    ) -> None:
        self.settings, self.verifier = settings, verifier
        self._judge, self._cache, self._device, self._dtype = judge, cache, device, dtype
        self._judges: dict[str, Judge[Any]] = {}
        self._progress, self._before = progress, progress.done

    @cached_property
    def embedder(self) -> "Embedder":
        """The encoder of `settings.embedding_model`."""
        from calibsft.evidence.embedder import Embedder

        assert self.settings.embedding_model is not None, "its evidence refuses such settings"
        return Embedder(self.settings.embedding_model, self._device, self._dtype, self.settings.batch_size)

    def judge(self, rubric: Rubric[V]) -> Judge[V]:
        """The judge, asked by `rubric`."""
        if rubric.name not in self._judges:
            loaded = load_judge(self._judge, rubric, self._cache, self._device, self._dtype)
            assert loaded is not None, "its evidence refuses such settings"
            self._judges[rubric.name] = loaded
        return self._judges[rubric.name]

    def report(self, rows: int) -> None:
        """Tell how many rows of the shard are measured so far; a measure that takes long should."""
        self._progress.advance(self._before + rows - self._progress.done)

    def finish_column(self, rows: int) -> None:
        """Count a shard's column as measured."""
        self.report(rows)
        self._before = self._progress.done
