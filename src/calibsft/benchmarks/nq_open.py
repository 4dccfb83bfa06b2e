"""NQ-Open: 3,610 questions that people typed into a search engine, each with its short answers."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    return row.question(row.text("question"), row.texts("answer", "answers"))


NQ_OPEN = Benchmark(
    "nq-open", "questions to a search engine", "ood", "text", size=3610,
    hub="google-research-datasets/nq_open", hub_split="validation", to_question=to_question,
)  # fmt: skip
