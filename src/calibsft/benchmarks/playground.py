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
# Ends of the bands of a*b; they split the held-out products into four similar parts.
BANDS = [(0, 1200), (1200, 2400), (2400, 4200), (4200, 10_000)]


def load(name: str, family: str, low: int = 0, high: int = 10_000) -> Sequence[Question]:
    return [replace(q, dataset=name) for q in held_out_questions(family) if low <= int(str(q.gold)) < high]


MULTIPLY = [
    Benchmark(
        f"multiply-{number}", f"two-digit products below {high}", "id", "exact", SAMPLES,
        embedded=partial(load, f"multiply-{number}", "multiply", low, high),
    )
    for number, (low, high) in enumerate(BANDS, start=1)
]  # fmt: skip
CROSS = Benchmark(
    "cross", "the same products written with x", "ood", "exact", SAMPLES,
    embedded=partial(load, "cross", "cross"),
)  # fmt: skip
MULTIPLY_ADD = Benchmark(
    "multiply-add", "a product by one digit plus a number", "ood", "exact", SAMPLES,
    embedded=partial(load, "multiply-add", "multiply_add"),
)  # fmt: skip
TRAINING = Benchmark(
    "playground", "products to train on, disjoint from all others", "id", "exact", SAMPLES,
    embedded=training_questions, training=True,
)  # fmt: skip
