"""MATH-500: 500 competition problems of seven subjects and five levels."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    return row.question(row.text("problem"), row.text("answer"), id=row.own_id("unique_id"))


MATH_500 = Benchmark(
    "math-500", "competition problems", "id", "math",
    size=500, hub="HuggingFaceH4/MATH-500", hub_split="test", to_question=to_question,
)  # fmt: skip
