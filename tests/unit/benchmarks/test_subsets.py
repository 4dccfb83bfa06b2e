"""Which questions are asked: the first ones, or a seeded draw that only seed and ids decide."""

import random
from collections import Counter

from calibsft.questions import chosen
from calibsft.schema import Question

ALL = [Question(f"q{i}", f"{i}?", str(i), "exact", "mine") for i in range(500)]


def test_without_limit_and_subset_all_are_asked() -> None:
    assert chosen(ALL, None, None, 0) == ALL and chosen(ALL, 1000, 1000, 0) == ALL


def test_a_draw_keeps_the_order_and_does_not_depend_on_it() -> None:
    drawn = chosen(ALL, None, 60, 0)
    assert len(drawn) == 60 and drawn == sorted(drawn, key=ALL.index) and drawn != ALL[:60]
    shuffled = random.Random(1).sample(ALL, len(ALL))
    again = chosen(shuffled, None, 60, 0)
    assert set(again) == set(drawn) and again == sorted(again, key=shuffled.index)


def test_a_draw_depends_on_seed_and_ids_alone() -> None:
    drawn = {question.id for question in chosen(ALL, None, 60, 0)}
    assert drawn != {question.id for question in chosen(ALL, None, 60, 1)}
    renamed = [Question(q.id, "another text", "0", "math", "yours") for q in ALL]
    assert {question.id for question in chosen(renamed, None, 60, 0)} == drawn


def test_a_smaller_draw_is_part_of_a_larger_one_and_a_removed_question_moves_one_other() -> None:
    drawn = set(chosen(ALL, None, 60, 0))
    assert set(chosen(ALL, None, 20, 0)) < drawn
    removed = next(iter(drawn))
    without = set(chosen([q for q in ALL if q != removed], None, 60, 0))
    assert len(without - drawn) == 1 and len(without & drawn) == 59


def test_every_question_is_drawn_about_equally_often() -> None:
    counts = Counter(q.id for seed in range(400) for q in chosen(ALL[:40], None, 10, seed))
    assert len(counts) == 40 and min(counts.values()) > 50 and max(counts.values()) < 150, "100 on average"


def test_a_limit_counts_among_the_drawn_ones() -> None:
    assert chosen(ALL, 7, 60, 0) == chosen(ALL, None, 60, 0)[:7]
    assert chosen(ALL, 7, None, 0) == ALL[:7]
