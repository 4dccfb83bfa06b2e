"""The playground's benchmarks: products in four bands of size, another notation, another operation.

All questions are held out from pre-training and from the training pool.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.playground.world import held_out_questions, training_questions
from calibsft.schema import Question

SAMPLES = 8
# Upper ends of the bands of a*b; they cut the held-out products into four similar parts.
BANDS = {"multiply-1": 1200, "multiply-2": 2400, "multiply-3": 4200, "multiply-4": 10_000}


def load_band(name: str) -> Sequence[Question]:
    ends = list(BANDS.values())
    low, high = ([0, *ends])[ends.index(BANDS[name])], BANDS[name]
    return [
        replace(q, dataset=name) for q in held_out_questions("multiply") if low <= int(str(q.gold)) < high
    ]


def load_family(name: str, family: str) -> Sequence[Question]:
    return [replace(q, dataset=name) for q in held_out_questions(family)]


MULTIPLY = [
    Benchmark(
        name, f"two-digit products below {end}", "id", "exact", SAMPLES, embedded=partial(load_band, name)
    )
    for name, end in BANDS.items()
]
CROSS = Benchmark(
    "cross", "the same products written with x", "ood", "exact", SAMPLES,
    embedded=partial(load_family, "cross", "cross"),
)  # fmt: skip
MULTIPLY_ADD = Benchmark(
    "multiply-add", "a product by one digit plus a number", "ood", "exact", SAMPLES,
    embedded=partial(load_family, "multiply-add", "multiply_add"),
)  # fmt: skip
TRAINING = Benchmark(
    "playground", "products to train on, disjoint from all others", "id", "exact", SAMPLES,
    embedded=training_questions, training=True,
)  # fmt: skip
