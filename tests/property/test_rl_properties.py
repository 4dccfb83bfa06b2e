"""What must hold for the advantages of every method and group; and that they need no torch."""

import subprocess
import sys
from math import nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.rl import METHODS, segment_advantages
from calibsft.rl.method import Group

Row = tuple[bool, float | None, bool]  # correct, confidence, well formed
PROBABILITIES = st.one_of(st.integers(0, 100).map(lambda hundredths: hundredths / 100), st.floats(0, 1))
DIGITS = st.integers(0, 9).map(lambda digit: digit / 9)
RATES = st.sampled_from([0.0, 0.02, 0.5, 1.0])


def rows_of(confidences: st.SearchStrategy[float]) -> st.SearchStrategy[list[Row]]:
    well_formed = st.tuples(st.booleans(), confidences, st.just(True))
    malformed = st.tuples(st.booleans(), st.none() | PROBABILITIES, st.just(False))
    return st.lists(st.one_of(well_formed, well_formed, malformed), min_size=2, max_size=9)


@st.composite
def cases(draw: st.DrawFn, names: list[str]) -> tuple[str, list[Row], dict[str, Any]]:
    """A method, a group that it is defined for, and the options of `segment_advantages`."""
    name = draw(st.sampled_from(names))
    rows = draw(rows_of(DIGITS if METHODS[name].formats == ("integer",) else PROBABILITIES))
    options = {
        "q": draw(RATES),
        "divide_by_std": draw(st.sampled_from([None, True, False])),
    }
    if "leave_one_out" in METHODS[name].settings.model_fields:
        options["leave_one_out"] = draw(st.booleans())
    return name, rows, options


Case = tuple[str, list[Row], dict[str, Any]]
SCALAR = [name for name, method in METHODS.items() if method.is_scalar]


def advantages(name: str, rows: list[Row], options: dict[str, Any]) -> dict[str, list[float]]:
    correct, confidence, well_formed = zip(*rows, strict=True)
    return segment_advantages(name, correct, confidence, well_formed, **options)


def group_of(rows: list[Row], options: dict[str, Any]) -> Group:
    correct, confidence, well_formed = zip(*rows, strict=True)
    stated = np.array([nan if c is None else c for c in confidence])
    return Group(np.array(correct), stated, np.array(well_formed), options["q"])


def rewards(name: str, rows: list[Row], options: dict[str, Any]) -> list[list[float] | None]:
    own = {key: value for key, value in options.items() if key not in ("q", "divide_by_std")}
    found = METHODS[name].rewards(group_of(rows, options), METHODS[name].settings(**own))
    return [None if part is None else part.tolist() for part in (found.answer_G, found.confidence_G)]


@given(cases(list(METHODS)))
def test_advantages_of_a_group_sum_to_zero_in_each_segment(case: Case) -> None:
    found = advantages(*case)
    assert set(found) == {"answer", "confidence"}
    for part in found.values():
        assert len(part) == len(case[1])
        assert sum(part) == pytest.approx(0, abs=1e-9)


@given(cases(list(METHODS)), st.data())
def test_the_order_of_responses_does_not_matter(case: Case, data: st.DataObject) -> None:
    name, rows, options = case
    order = data.draw(st.permutations(range(len(rows))))
    before, after = advantages(*case), advantages(name, [rows[i] for i in order], options)
    for part in before:
        assert after[part] == pytest.approx([before[part][i] for i in order], abs=1e-9)


@given(cases(list(METHODS)))
def test_no_advantage_exceeds_what_an_unbiased_deviation_allows(case: Case) -> None:
    """One response against G−1 equal ones has (G−1)/√G, the largest; the floor keeps it below that."""
    name, rows, options = case
    found = advantages(name, rows, options | {"divide_by_std": True})
    for part in found.values():
        assert max(map(abs, part)) < (len(rows) - 1) / sqrt(len(rows))


@given(cases(list(METHODS)))
def test_a_malformed_response_is_never_better_than_a_well_formed_one(case: Case) -> None:
    for part in advantages(*case).values():
        worst = min((a for a, (*_, ok) in zip(part, case[1], strict=True) if ok), default=0.0)
        assert all(a <= worst + 1e-9 for a, (*_, ok) in zip(part, case[1], strict=True) if not ok)


@given(cases(["redoubt"]))
def test_redoubt_leaves_reasoning_and_answer_alone(case: Case) -> None:
    assert advantages(*case)["answer"] == [0.0] * len(case[1])


@given(cases(SCALAR))
def test_methods_with_one_reward_give_both_segments_the_same(case: Case) -> None:
    found = advantages(*case)
    assert found["answer"] == found["confidence"]


@given(cases(list(METHODS)), st.data())
def test_what_a_malformed_response_says_changes_no_reward_by_a_single_bit(
    case: Case, data: st.DataObject
) -> None:
    """It counts as wrong in the group's success rate whether it is or not, and its confidence is not read."""
    name, rows, options = case
    another = st.tuples(st.booleans(), st.none() | PROBABILITIES, st.just(False))
    changed = [row if row[2] else data.draw(another) for row in rows]
    assert rewards(name, changed, options) == rewards(name, rows, options)


@given(cases(SCALAR))
def test_one_reward_for_the_whole_response_depends_on_that_response_alone(case: Case) -> None:
    """So that it can be a plain reward function, which knows nothing of groups."""
    name, rows, options = case
    together, _ = rewards(name, rows, options)
    alone = [rewards(name, [row], options)[0] for row in rows]
    assert together is not None and alone == [[reward] for reward in together]


@given(rows_of(PROBABILITIES))
def test_mixed_groups_are_told_by_counting(rows: list[Row]) -> None:
    count = sum(correct and well_formed for correct, _, well_formed in rows)
    mixed = group_of(rows, {"q": None}).is_mixed
    assert mixed is (count not in (0, len(rows)))


@pytest.mark.parametrize("size", [2, 3, 7, 8, 49, 50, 1000])
def test_a_single_exception_makes_a_group_of_any_size_mixed(size: int) -> None:
    for rare in (True, False):
        rows: list[Row] = [(not rare, 0.5, True)] * (size - 1)
        options = {"q": None}
        assert not group_of(rows, options).is_mixed
        assert group_of([*rows, (rare, 0.5, True)], options).is_mixed


def expected(name: str, chance: float) -> list[float]:
    """The expected reward of each confidence 0.00, 0.01 … 1.00 for a response that is right with `chance`."""
    grid, options = [hundredths / 100 for hundredths in range(101)], {"q": 0.5}
    _, right = rewards(name, [(True, c, True) for c in grid], options)
    _, wrong = rewards(name, [(False, c, True) for c in grid], options)
    assert right is not None and wrong is not None
    return [chance * r + (1 - chance) * w for r, w in zip(right, wrong, strict=True)]


@given(st.sampled_from(["rlcr", "redoubt"]), st.integers(0, 100))
def test_proper_scores_are_best_at_the_true_probability(name: str, hundredths: int) -> None:
    scores = expected(name, hundredths / 100)
    assert scores.index(max(scores)) == hundredths


def test_advantages_need_neither_torch_nor_a_training_library() -> None:
    program = "import sys, calibsft.rl as rl; rl.segment_advantages('rlcr', [1, 0], [.8, .2], [1, 1]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert {"calibsft", "numpy"} <= loaded
    assert not loaded & {"torch", "transformers", "trl", "peft", "accelerate", "datasets"}
