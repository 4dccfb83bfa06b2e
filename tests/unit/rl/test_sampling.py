"""Which groups a rollout step trains on: judged by correctness, nothing twice, bounded, and resumable.

No model here: groups are made by hand, and whatever is asked next is handed out.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
import pytest

from calibsft.engines.engine import Request, Sampling
from calibsft.engines.text_engine import TextEngine
from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.rl.batches import rewards_of
from calibsft.rl.method import Group
from calibsft.rl.methods import METHODS
from calibsft.rl.policy import Policy
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.sampling import GroupSampler, QuestionPlan, Visit
from calibsft.rl.saved_groups import groups_from_json, groups_to_json
from calibsft.rl.scoring import Response, ScoredGroup

MIXED, RIGHT, WRONG = (True, False), (True, True), (False, False)


def questions(size: int) -> list[TrainingQuestion]:
    return [TrainingQuestion("d", f"q{i}", ("1",), "exact", (i,), None) for i in range(size)]


def group(name: str, correct: Sequence[bool], reasons: Sequence[str] | None = None) -> ScoredGroup:
    """Responses of two tokens; confidences differ, so that rewards do."""
    reasons = reasons or ["ok"] * len(correct)
    nothing = np.zeros(2, dtype=np.float32)
    responses = [Response((1, 2), nothing, nothing.astype(bool), reason, None) for reason in reasons]
    well_formed = np.array([reason == "ok" for reason in reasons])
    confidence = np.where(well_formed, np.linspace(0.2, 0.9, len(correct)), np.nan)
    return ScoredGroup(name, (0,), tuple(responses), Group(np.array(correct), confidence, well_formed))


class World:
    """Hands out groups in a given order of kinds, one per visit, and remembers all of them."""

    def __init__(self, kinds: Iterator[Sequence[bool]]) -> None:
        self.kinds, self.numbers = kinds, count()
        self.visits: list[Visit] = []
        self.made: list[ScoredGroup] = []

    def produce(self, visits: Sequence[Visit]) -> list[ScoredGroup]:
        groups = [group(f"g{next(self.numbers)}", next(self.kinds)) for _ in visits]
        self.visits += visits
        self.made += groups
        return groups


def endless(*kinds: Sequence[bool]) -> Iterator[Sequence[bool]]:
    while True:
        yield from kinds


def sampler(produce: object, size: int = 4, dynamic: bool = True, max_batches: int = 20) -> GroupSampler:
    return GroupSampler(QuestionPlan(questions(7), 3), produce, size, dynamic, max_batches)  # type: ignore[arg-type]


def names(groups: Sequence[ScoredGroup]) -> list[str]:
    return [scored.question_id for scored in groups]


def test_a_group_is_judged_by_correctness_and_never_by_its_reward() -> None:
    world = World(endless(MIXED, WRONG, RIGHT))
    step = sampler(world.produce, size=2).next_step()
    assert names(step.generated) == ["g0", "g1", "g2", "g3"] and names(step.kept) == ["g0", "g3"]
    for dropped in step.generated[1:3]:
        rewards = rewards_of(dropped, METHODS["rlcr"], METHODS["rlcr"].settings()).answer_G
        assert rewards is not None and np.ptp(rewards) > 0.1


def test_a_right_answer_in_a_malformed_response_makes_no_contrast() -> None:
    malformed = [
        group("g", (True, False), ["trailing_text", "ok"]),
        group("h", (True, True), ["ok", "truncated"]),
    ]
    step = sampler(lambda visits: malformed[: len(visits)], size=2, max_batches=1).next_step()
    assert names(step.kept) == ["h"]


def test_every_mixed_group_is_trained_on_exactly_once_and_in_order() -> None:
    random = np.random.default_rng(0)
    kinds = [(MIXED, WRONG, RIGHT)[i] for i in random.integers(0, 3, 5000)]
    world = World(iter(kinds))
    trained: list[str] = []
    steps = sampler(world.produce)
    for _ in range(60):
        step = steps.next_step()
        assert len(step.kept) == 4
        trained += names(step.kept)
    mixed = names([scored for scored in world.made if scored.group.is_mixed])
    assert trained + names(steps.surplus) == mixed


def test_the_surplus_is_used_before_anything_that_is_newly_generated() -> None:
    world = World(endless(MIXED, MIXED, MIXED, WRONG))
    steps = sampler(world.produce)
    first = steps.next_step()
    assert names(first.kept) == ["g0", "g1", "g2", "g4"] and names(steps.surplus) == ["g5", "g6"]
    second = steps.next_step()
    assert names(second.kept) == ["g5", "g6", "g8", "g9"] and names(steps.surplus) == ["g10"]
    assert names(second.generated) == ["g8", "g9", "g10", "g11"], (
        "what was generated before is not counted again"
    )


def test_batches_and_questions_asked_are_counted() -> None:
    world = World(endless(MIXED, WRONG))
    steps = sampler(world.produce)
    assert [(step.batches, len(step.generated)) for step in (steps.next_step(), steps.next_step())] == [
        (2, 8)
    ] * 2
    assert (steps.batches, steps.asked) == (4, 16)
    assert world.visits == list(islice(steps.plan.visits(0), 16)), "asks along the plan without a gap"


def test_too_few_mixed_groups_are_trained_on_as_they_are_and_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World(endless(MIXED, *[WRONG] * 7))
    steps = sampler(world.produce, max_batches=3)
    first, second = steps.next_step(), steps.next_step()
    assert names(first.kept) == ["g0", "g8"] and names(second.kept) == ["g16"]
    assert (first.batches, second.batches, len(world.made)) == (3, 3, 24)
    err = capsys.readouterr().err
    assert err.count("warning") == 1
    assert "only 2 of 4 groups had right and wrong responses after 3 generated batches" in err


def test_a_full_step_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    sampler(World(endless(MIXED)).produce, max_batches=1).next_step()
    assert capsys.readouterr().err == ""


def test_without_any_contrast_the_counts_are_named() -> None:
    steps = sampler(World(endless(RIGHT, WRONG, WRONG)).produce, size=3, max_batches=2)
    with pytest.raises(InputError, match=r"in 6 groups \(2 all right, 4 all wrong\); take questions nearer"):
        steps.next_step()


@pytest.mark.parametrize("shares", [2, 3])
def test_processes_that_share_the_visits_train_on_the_groups_of_one(shares: int) -> None:
    kinds = [(MIXED, WRONG, RIGHT, None)[i] for i in np.random.default_rng(0).integers(0, 4, 400)]

    def of_visits(visits: Sequence[Visit]) -> list[ScoredGroup | None]:
        places = [7 * visit.number + int(visit.question.id[1:]) for visit in visits]
        return [group(f"g{place}", kinds[place]) if kinds[place] else None for place in places]

    def batch(visits: Sequence[Visit], share: int) -> list[ScoredGroup | None]:
        return of_visits(visits[share::shares])

    alone = sampler(of_visits)
    together = [sampler(of_visits) for _ in range(shares)]
    for share, one in enumerate(together):
        one.share, one.shares = share, shares
        # What the others would send: every process works on the same visits.
        one.gather = lambda own, one=one: [
            found
            for other in range(shares)
            for found in batch(list(islice(one.plan.visits(one.asked), one.size)), other)
        ]
    for _ in range(12):
        step = alone.next_step()
        for one in together:
            found = one.next_step()
            assert names(found.kept) == names(step.kept) and names(found.generated) == names(step.generated)
            assert (one.asked, names(one.surplus)) == (alone.asked, names(alone.surplus))


def test_each_process_generates_its_own_share_of_the_visits() -> None:
    world = World(endless(MIXED))
    steps = sampler(world.produce, size=5)
    steps.share, steps.shares = 1, 2
    steps.gather = lambda own: [group("a", MIXED)] * 3 + own
    assert names(steps.next_step().kept) == ["a", "g0", "a", "g1", "a"]
    assert world.visits == list(islice(steps.plan.visits(0), 5))[1::2]


def test_nothing_but_malformed_responses_is_refused_with_the_most_frequent_reason() -> None:
    reasons = ["truncated", "missing_answer", "missing_answer"]
    made = [group("g", (False,) * 3, reasons)]
    message = r"all 12 responses .* are malformed \(most often: missing_answer\).* calibsft sft"
    for dynamic in (True, False):
        with pytest.raises(InputError, match=message):
            sampler(lambda visits: made * len(visits), dynamic=dynamic, max_batches=1).next_step()


def test_golds_that_cannot_be_read_are_named_as_the_cause() -> None:
    with pytest.raises(InputError, match="no gold answer of the questions asked could be read"):
        sampler(lambda visits: [None] * len(visits)).next_step()


def test_golds_that_cannot_be_read_are_made_up_for_by_other_questions() -> None:
    world = World(endless(MIXED))
    steps = sampler(lambda visits: [*world.produce(visits[:-1]), None])
    step = steps.next_step()
    assert names(step.kept) == ["g0", "g1", "g2", "g3"] and steps.asked == 8


def test_a_step_that_generates_no_group_is_refused_even_with_a_surplus() -> None:
    world = World(endless(MIXED))
    steps = sampler(world.produce, size=2, max_batches=2)
    steps.surplus = [group("left over", MIXED)]
    steps.produce = lambda visits: [None] * len(visits)
    with pytest.raises(InputError, match="no gold answer"):
        steps.next_step()


def test_without_dynamic_sampling_every_group_is_kept() -> None:
    world = World(endless(WRONG, MIXED, RIGHT))
    step = sampler(world.produce, dynamic=False).next_step()
    assert step.kept == step.generated and len(step.kept) == 4 and step.batches == 1


def taken(plan: QuestionPlan, number: int, start: int = 0) -> list[tuple[str, int]]:
    return [(visit.question.id, visit.number) for visit in islice(plan.visits(start), number)]


def test_every_question_comes_once_per_round_and_rounds_are_shuffled_anew() -> None:
    plan = QuestionPlan(questions(7), 3)
    rounds = [taken(plan, 7, 7 * i) for i in range(6)]
    for number, visits in enumerate(rounds):
        assert sorted(visits) == [(f"q{i}", number) for i in range(7)]
    assert len({tuple(name for name, _ in visits) for visits in rounds}) == 6
    assert taken(plan, 42) == [visit for visits in rounds for visit in visits]
    assert taken(QuestionPlan(questions(7), 4), 42) != taken(plan, 42)


def test_a_plan_goes_on_exactly_where_it_stopped() -> None:
    plan = QuestionPlan(questions(5), 3)
    whole = taken(plan, 30)
    assert all(taken(plan, 30 - start, start) == whole[start:] for start in range(30))


def test_surplus_comes_back_from_a_checkpoint_to_the_last_bit() -> None:
    random = np.random.default_rng(1)
    responses = tuple(
        Response(
            tuple(random.integers(0, 99, n).tolist()),
            random.normal(size=n).astype(np.float32) * np.float32(1e-7),
            random.integers(0, 2, n).astype(bool),
            reason,
            entropy,
        )
        for n, reason, entropy in ((5, "ok", 1 / 3), (3, "truncated", None))
    )
    for success_rate in (None, 1 / 3):
        scored = ScoredGroup(
            "57*77", (4, 5, 6), responses,
            Group(np.array(MIXED), np.array([1 / 9, np.nan]), np.array([True, False]), success_rate),
        )  # fmt: skip
        text = json.dumps(groups_to_json([scored]), allow_nan=False)
        (found,) = groups_from_json(json.loads(text))
        assert (found.question_id, found.prompt_ids) == (scored.question_id, scored.prompt_ids)
        for new, old in zip(found.responses, scored.responses, strict=True):
            assert (new.token_ids, new.reason, new.entropy) == (old.token_ids, old.reason, old.entropy)
            assert new.logprobs_T.dtype == np.float32 and (new.logprobs_T == old.logprobs_T).all()
            assert new.confidence_T.dtype == bool and (new.confidence_T == old.confidence_T).all()
        new, old = found.group, scored.group
        assert new.success_rate == old.success_rate
        assert np.array_equal(new.confidence_G, old.confidence_G, equal_nan=True)
        for name in ("correct_G", "well_formed_G"):
            assert getattr(new, name).dtype == bool and (getattr(new, name) == getattr(old, name)).all()


class Recorder(TextEngine):
    """Says nothing and keeps who asked; as a scorer it makes no groups."""

    def __init__(self) -> None:
        super().__init__(build_tokenizer())
        self.requests: list[Request] = []

    def texts(self, request: Request) -> list[str]:
        self.requests.append(request)
        return [""] * len(request.seeds)

    def score(self, asked: object, completions: object) -> list[None]:
        return []


def test_no_seed_is_used_twice_and_a_visit_always_has_the_same_ones() -> None:
    recorder = Recorder()
    policy = Policy(recorder, None, recorder, Sampling(), 4, 0)  # type: ignore[arg-type]
    plan = QuestionPlan(questions(3), 3)
    policy.produce(list(islice(plan.visits(0), 9)))
    seeds = [seed for request in recorder.requests for seed in request.seeds]
    assert len(seeds) == len(set(seeds)) == 36
    policy.produce(list(islice(plan.visits(5), 4)))
    assert recorder.requests[9:] == recorder.requests[5:9]
