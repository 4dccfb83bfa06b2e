"""The policy as the sampler sees it: visits in, scored groups out.

Samples at temperature 1 from the whole distribution, so the engine's log-probabilities are the policy's own, as the ratio
in the loss needs. Measures the time of its two phases.
"""

from collections.abc import Sequence
from time import monotonic

from calibsft.engines.engine import Engine, Request, Sampling, sample_seed
from calibsft.rl.sampling import Visit
from calibsft.rl.scoring import ScoredGroup, Scorer
from calibsft.rl.weights import PolicyWeights


class Policy:
    """Samples from the model in training, wherever its `weights` are.

    A response's own seed is derived from `seed`, the question and the response's number over all visits.
    """

    def __init__(
        self,
        engine: Engine,
        weights: PolicyWeights,
        scorer: Scorer,
        sampling: Sampling,
        group_size: int,
        seed: int,
    ) -> None:
        self.engine, self.weights, self.scorer, self.sampling = engine, weights, scorer, sampling
        self.group_size, self.seed = group_size, seed
        self.tokens = 0
        self._seconds = {"generate": 0.0, "verify": 0.0}

    def produce(self, visits: Sequence[Visit]) -> list[ScoredGroup | None]:
        """One scored group per visit; None where one cannot be graded."""
        began = monotonic()
        completions = self.engine.generate([self._request(visit) for visit in visits], self.sampling)
        generated = monotonic()
        groups = self.scorer.score([visit.question for visit in visits], completions)
        self.tokens += sum(len(completion.token_ids) for row in completions for completion in row)
        self._seconds["generate"] += generated - began
        self._seconds["verify"] += monotonic() - generated
        return groups

    def _request(self, visit: Visit) -> Request:
        first, question = visit.number * self.group_size, visit.question
        samples = range(first, first + self.group_size)
        seeds = (sample_seed(self.seed, question.dataset, question.id, sample) for sample in samples)
        return Request(question.prompt_ids, tuple(seeds))

    def take_times(self) -> dict[str, float]:
        """Seconds per phase since the last call."""
        times = {f"seconds/{phase}": seconds for phase, seconds in self._seconds.items()}
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return times
