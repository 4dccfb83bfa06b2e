"""Which groups a rollout step trains on: dynamic sampling by correctness; surplus groups go to the next step.

A group is kept if some but not all of its responses are right. Its rewards do not decide: the Brier scores of a group
without a right answer differ too, and training on those costs accuracy. Batches are generated until the step is full.
Questions are planned by position, so a resumed run asks the same ones as an uninterrupted run. Does not generate or score:
`produce` does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from random import Random

from calibsft.progress import warn
from calibsft.rl.outcomes import Outcome, outcome_of, require_learnable
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.scoring import ScoredGroup


@dataclass(frozen=True, slots=True)
class Visit:
    """A question that is asked once; `number` counts how often it was asked before."""

    question: TrainingQuestion
    number: int


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """An endless order of questions: every question once per round, each round in a new random order.

    This process takes every `shares`-th question, starting with number `share`.
    """

    questions: Sequence[TrainingQuestion]
    seed: int
    share: int = 0
    shares: int = 1

    def visits(self, start: int) -> Iterator[Visit]:
        """The visits of this process, starting with number `start`."""
        size = len(self.questions)
        positions = count(start * self.shares + self.share, self.shares)
        for round_, places in groupby(positions, lambda position: position // size):
            order = list(range(size))
            Random(f"{self.seed} {round_}").shuffle(order)
            for position in places:
                yield Visit(self.questions[order[position % size]], round_)


@dataclass(frozen=True, slots=True)
class Step:
    """One rollout step: the groups to train on (`kept`) and all groups generated for it."""

    kept: tuple[ScoredGroup, ...]
    generated: tuple[ScoredGroup, ...]
    batches: int


@dataclass(slots=True)
class GroupSampler:
    """Fills rollout steps with groups."""

    plan: QuestionPlan
    # Samples and scores one group per visit; leaves out groups that cannot be graded.
    produce: Callable[[Sequence[Visit]], list[ScoredGroup]]
    size: int  # groups per step
    dynamic: bool  # keep only mixed groups; otherwise all
    max_batches: int  # the most to generate for one step; after that it trains on what was kept
    # Takes this process's outcome of a step and returns those of all processes.
    exchange: Callable[[Outcome], list[Outcome]] = lambda outcome: [outcome]
    asked: int = 0
    batches: int = 0
    surplus: list[ScoredGroup] = field(default_factory=list)
    _warned: bool = False

    def next_step(self) -> Step:
        """Generate until the step is full or `max_batches` is reached."""
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
        """Warn once if a step is not full, counted over all processes."""
        kept, size = sum(min(outcome.kept, self.size) for outcome in outcomes), self.size * len(outcomes)
        if kept < size and not self._warned:
            self._warned = True
            warn(
                f"rl: only {kept} of {size} groups had right and wrong responses after {self.max_batches} generated"
                " batches; training goes on with fewer (said once)"
            )
