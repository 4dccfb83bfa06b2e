"""What measuring evidence needs: settings, a verifier, and an embedder and a judge, which are loaded at first use."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.evidence.settings import AUTO
from calibsft.evidence.similarity import Similarities
from calibsft.judge.judge import Judge, load_judge
from calibsft.judge.rubric import Rubric, V
from calibsft.progress import Progress, info
from calibsft.schema import QUESTION_KEYS

if TYPE_CHECKING:
    from calibsft.evidence.embedder import Embedder
    from calibsft.evidence.settings import EvidenceSettings
    from calibsft.judge.settings import JudgeSettings
    from calibsft.verify.verifier import Verifier


@dataclass(eq=False)
class Context:
    """One context serves all parts, so that a model is loaded once.

    `cache` is the file of the judge's replies, and `progress` counts values. `report` takes how many rows of the part are
    measured so far; a slow measure should call it. `first` reads the rows of the first part, from which the similarity of
    one cluster is chosen.
    """

    settings: "EvidenceSettings"
    judge_settings: "JudgeSettings"
    cache: Path
    device: str
    dtype: str
    verifier: "Verifier"
    progress: Progress
    first: Callable[[], pl.DataFrame]

    def __post_init__(self) -> None:
        self._judges: dict[str, Judge[Any]] = {}
        # The last texts and their vectors: those of the first part are asked for twice.
        self._embedded: tuple[list[str], NDArray[np.float32]] = [], np.empty((0, 0), np.float32)
        self.report = self.progress.counter()

    @cached_property
    def embedder(self) -> "Embedder":
        """The encoder of `settings.embedding_model`."""
        from calibsft.evidence.embedder import Embedder

        assert self.settings.embedding_model is not None, "its evidence refuses such settings"
        return Embedder(self.settings.embedding_model, self.device, self.dtype, self.settings.batch_size)

    def embed(self, responses: pl.Series) -> tuple[NDArray[np.float32], list[int]]:
        """The vectors of the different responses, and the place of each response's vector."""
        texts = responses.unique(maintain_order=True).to_list()
        if texts != self._embedded[0]:
            scale = len(responses) / max(len(texts), 1)
            vectors_N_D = self.embedder.embed(texts, lambda done: self.report(int(done * scale)))
            self._embedded = texts, vectors_N_D
        place = {text: i for i, text in enumerate(texts)}
        return self._embedded[1], [place[text] for text in responses]

    @cached_property
    def similarity(self) -> float:
        """The cosine from which two responses are one cluster: that of the settings, or the choice of the rule.

        Says what it links, so that a similarity that does not suit the encoder is seen.
        """
        given, rows = self.settings.similarity, self.first()
        found = Similarities(None if given == AUTO else float(given))
        vectors_N_D, at = self.embed(rows["response"])
        numbered = rows.select(*QUESTION_KEYS, "answer", at=pl.Series(at))
        for samples in numbered.partition_by(QUESTION_KEYS):
            texts = samples["at"].to_list()
            found.add(vectors_N_D[texts], texts, samples["answer"])
        best = found.best()
        if given != AUTO:
            told = [str(one) for one in (found.at(float(given)), best) if one is not None]
            info(f"cluster-share: {'; '.join(told) or 'no answers to compare'} ({self._rule(rows)})")
            return float(given)
        if best is None:
            raise InputError(
                f"of the first {len(rows):,} responses, those with the same answer are not more similar than others, so no"
                " similarity can be chosen; name one as evidence.similarity"
            )
        info(f"cluster-share: {best} ({self._rule(rows)})")
        return best.similarity

    @staticmethod
    def _rule(rows: pl.DataFrame) -> str:
        return f"the rule: the largest difference, on the first {len(rows):,} responses"

    def judge(self, rubric: Rubric[V]) -> Judge[V]:
        """The judge that is asked by `rubric`."""
        if rubric.name not in self._judges:
            loaded = load_judge(self.judge_settings, rubric, self.cache, self.device, self.dtype)
            assert loaded is not None, "its evidence refuses such settings"
            self._judges[rubric.name] = loaded
        return self._judges[rubric.name]

    def finish_column(self, rows: int) -> None:
        """Count a part's column as measured."""
        self.report(rows)
        self.report = self.progress.counter()
