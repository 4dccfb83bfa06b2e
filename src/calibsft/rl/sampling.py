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
from calibsft.rl.outcomes import require_learnable
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.scoring import ScoredGroup


@dataclass(frozen=True, slots=True)
class Visit:
    """A question that is asked once; `number` counts how often it was asked before."""

    question: TrainingQuestion
    number: int


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """An endless order of questions: every question once per round, each round in a new random order."""

    questions: Sequence[TrainingQuestion]
    seed: int

    def visits(self, start: int) -> Iterator[Visit]:
        """The visits, starting with number `start`."""
        size = len(self.questions)
        for round_, places in groupby(count(start), lambda position: position // size):
            order = list(range(size))
            Random(f"{self.seed} {round_}").shuffle(order)
            for position in places:
                yield Visit(self.questions[order[position % size]], round_)


@dataclass(frozen=True, slots=True)
class Step:
    """One rollout step: the groups to train on (`kept`) and all groups generated for it.

    The first `stale` of those kept are of the step before, which had them left over.
    """

    kept: tuple[ScoredGroup, ...]
    generated: tuple[ScoredGroup, ...]
    batches: int
    stale: int = 0


@dataclass(slots=True)
class GroupSampler:
    """Fills rollout steps with groups, by all processes together: each generates its share, and all know all groups.

    So a step trains on the same groups with any number of processes, and none waits for another to fill a quota.
    """

    plan: QuestionPlan
    # Samples and scores one group per visit; None for a group that cannot be graded.
    produce: Callable[[Sequence[Visit]], list[ScoredGroup | None]]
    size: int  # groups per step
    dynamic: bool  # keep only mixed groups; otherwise all
    max_batches: int  # the most to generate for one step; after that it trains on what was kept
    share: int = 0  # the number of this process, which takes every `shares`-th visit
    shares: int = 1
    # From the groups of this process to those of all processes, one process after the other.
    gather: Callable[[list[ScoredGroup | None]], list[ScoredGroup | None]] = lambda groups: groups
    asked: int = 0
    batches: int = 0
    surplus: list[ScoredGroup] = field(default_factory=list)
    _warned: bool = False

    def next_step(self) -> Step:
        """Generate until the step is full or `max_batches` is reached."""
        kept, generated, batches, stale = self.surplus, list[ScoredGroup](), 0, len(self.surplus)
        while len(kept) < self.size and batches < self.max_batches:
            groups = self._generate(list(islice(self.plan.visits(self.asked), self.size)))
            self.asked += self.size
            batches += 1
            generated += groups
            kept = kept + [scored for scored in groups if scored.group.is_mixed or not self.dynamic]
        self.batches += batches
        require_learnable(self.asked, generated, len(kept))
        self._warn_of_few(len(kept))
        self.surplus = kept[self.size :]
        return Step(tuple(kept[: self.size]), tuple(generated), batches, stale)

    def _generate(self, visits: Sequence[Visit]) -> list[ScoredGroup]:
        """The groups of these visits, in their order."""
        found = iter(self.gather(self.produce(visits[self.share :: self.shares])))
        groups: list[ScoredGroup | None] = [None] * len(visits)
        for share in range(self.shares):
            groups[share :: self.shares] = islice(found, len(visits[share :: self.shares]))
        return [group for group in groups if group is not None]

    def _warn_of_few(self, kept: int) -> None:
        """Warn once if a step is not full."""
        if kept < self.size and not self._warned:
            self._warned = True
            warn(
                f"rl: only {kept} of {self.size} groups had right and wrong responses after {self.max_batches} generated"
                " batches; training goes on with fewer (reported once)"
            )
