"""Targets and balancing for any question, mix and seed."""

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render, replace_confidence
from calibsft.targets.balance import balance
from calibsft.targets.calibsft import mixed_target

mixes = st.fractions(0, 1, max_denominator=1000)
outcomes = st.lists(st.booleans(), min_size=1, max_size=60)
inner_text = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=30)


@given(outcomes, mixes)
def test_the_mean_target_of_a_question_is_its_success_rate(correct: list[bool], mix: Fraction) -> None:
    rate = Fraction(sum(correct), len(correct))
    targets = [mixed_target(rate, z, mix) for z in correct]
    assert sum(targets, Fraction(0)) / len(targets) == rate


@given(outcomes, mixes)
def test_targets_lie_in_the_unit_interval_on_the_right_side_of_the_rate(
    correct: list[bool], mix: Fraction
) -> None:
    rate = Fraction(sum(correct), len(correct))
    for z in correct:
        target = mixed_target(rate, z, mix)
        assert rate <= target <= 1 if z else 0 <= target <= rate


@given(outcomes, mixes)
def test_the_mixed_target_is_never_further_from_the_truth_than_the_rate(
    correct: list[bool], mix: Fraction
) -> None:
    rate = Fraction(sum(correct), len(correct))
    for z in correct:
        assert abs(mixed_target(rate, z, mix) - z) == mix * abs(rate - z)


@settings(max_examples=60)
@given(st.lists(st.fractions(0, 1, max_denominator=4), min_size=1, max_size=40), st.integers(), st.data())
def test_a_balanced_draw_is_balanced_and_does_not_see_the_order_of_rows(
    targets: list[Fraction], seed: int, data: st.DataObject
) -> None:
    ids = list(range(len(targets)))
    drawn = balance(targets, ids, seed)
    sizes = Counter(targets[row] for row in drawn.rows)
    assert set(sizes) == set(targets)
    assert set(sizes.values()) == {drawn.group_size} == {min(Counter(targets).values())}
    order = data.draw(st.permutations(ids))
    again = balance([targets[i] for i in order], order, seed)
    assert [order[row] for row in again.rows] == list(drawn.rows)


@given(inner_text, inner_text.filter(str.strip), mixes, st.sampled_from(sorted(FORMATS)))
def test_a_replaced_confidence_is_the_target_and_nothing_else_changes(
    think: str, answer: str, target: Fraction, name: str
) -> None:
    confidence_format = FORMATS[name]
    before = render(think, answer, confidence_format.render(Fraction(1)))
    written = confidence_format.render(target)
    after = replace_confidence(before, parse(before, confidence_format), written)
    found = parse(after, confidence_format)
    assert (found.think, found.answer, found.ok) == (think, answer, True)
    assert found.value == confidence_format.read(written)
    assert after.encode() == render(think, answer, written).encode()
