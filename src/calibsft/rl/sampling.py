"""Which groups a rollout step trains on: dynamic sampling on correctness, with surplus carried over.

A group is kept if some but not all of its responses are right, counted as integers and never judged by its rewards:
a group without a right answer still has a spread of Brier scores, and training on those costs accuracy.
More is generated until the step is full; what is left over goes to the next step. Questions are planned by
position, so a resumed run asks what an uninterrupted one would. Does not generate or score: `produce` does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from calibsft.progress import warn
from calibsft.rl.outcomes import Outcome, outcome_of, require_learnable
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.scoring import ScoredGroup


@dataclass(frozen=True, slots=True)
class Visit:
    """One time of asking a question; `number` counts how often it was asked before."""

    question: TrainingQuestion
    number: int


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """An endless order of questions: every question once per round, each round shuffled anew.

    Parameters
    ----------
    share, shares
        This process takes every `shares`-th question, starting with number `share`.
    """

    questions: Sequence[TrainingQuestion]
    seed: int
    share: int = 0
    shares: int = 1

    def visits(self, start: int) -> Iterator[Visit]:
        """The visits of this process from its `start`-th on."""
        size = len(self.questions)
        round_, order = -1, list[int]()
        position = start * self.shares + self.share
        while True:
            if position // size != round_:
                round_ = position // size
                order = list(range(size))
                Random(f"{self.seed} {round_}").shuffle(order)
            yield Visit(self.questions[order[position % size]], round_)
            position += self.shares


@dataclass(frozen=True, slots=True)
class Step:
    """What one rollout step trains on (`kept`) and everything that was generated for it."""

    kept: tuple[ScoredGroup, ...]
    generated: tuple[ScoredGroup, ...]
    batches: int


@dataclass(slots=True)
class GroupSampler:
    """Fills rollout steps with groups.

    Parameters
    ----------
    produce
        Samples and scores one group per visit; may return fewer where a gold answer cannot be read.
    size
        Groups per step.
    dynamic
        Keep mixed groups only; otherwise every group.
    max_batches
        Generate at most so many batches for one step, then train on what was kept.
    exchange
        Takes this process's outcome of a step and returns those of all processes.
    """

    plan: QuestionPlan
    produce: Callable[[Sequence[Visit]], list[ScoredGroup]]
    size: int
    dynamic: bool
    max_batches: int
    exchange: Callable[[Outcome], list[Outcome]] = lambda outcome: [outcome]
    asked: int = 0
    batches: int = 0
    surplus: list[ScoredGroup] = field(default_factory=list)
    _warned: bool = False

    def next_step(self) -> Step:
        """Generate until the step is full, or the bound is reached."""
        kept, generated, batches = self.surplus, list[ScoredGroup](), 0
        while len(kept) < self.size and batches < self.max_batches:
            visits = list(islice(self.plan.visits(self.asked), self.size))
            groups = self.produce(visits)
            self.asked += len(visits)
            batches += 1
            generated += groups
            kept = kept + [scored for scored in groups if scored.group.is_mixed or not self.dynamic]
        self.batches += batches
        outcomes = self.exchange(outcome_of(self.asked, generated, len(kept)))
        require_learnable(outcomes)
        self._warn_of_few(outcomes)
        self.surplus = kept[self.size :]
        return Step(tuple(kept[: self.size]), tuple(generated), batches)

    def _warn_of_few(self, outcomes: Sequence[Outcome]) -> None:
        """Say once that a step is not full, counted over all processes."""
        kept, size = sum(min(outcome.kept, self.size) for outcome in outcomes), self.size * len(outcomes)
        if kept < size and not self._warned:
            self._warned = True
            warn(
                f"rl: only {kept} of {size} groups had right and wrong responses after {self.max_batches} generated"
                " batches; training goes on with fewer (said once)"
            )
