"""PopQA: 14,267 questions about entities of all popularities; an answer that contains an alias is right.

1,199 questions are repeated, so rows are identified by id and never by their text.
"""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row, unique
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    if "answer" in row.fields:
        golds = unique([row.text("answer"), *row.optional_texts("aliases")])
    else:
        golds = row.texts("possible_answers", "golden_answers")
    return row.question(row.text("question"), golds, id=row.own_id("id"))


POPQA = Benchmark(
    "popqa", "questions about entities", "ood", "contains", size=14267,
    hub="akariasai/PopQA", hub_split="test", to_question=to_question,
)  # fmt: skip
