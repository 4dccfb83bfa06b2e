"""OlympiadBench: 674 English text-only olympiad problems of mathematics with open answers.

Several final answers are one gold, separated by commas: all are required, in any order. `error` is the absolute tolerance,
if the data has one. A unit is not part of the gold.
"""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    context = [row.text("context")] if row.has("context") and row.optional_text("context") else []
    return row.question(
        "\n\n".join([*context, row.text("question")]),
        ", ".join(row.all_texts("final_answer")),
        id=row.own_id("id"),
        tolerance=row.optional_text("error") if row.has("error") else "",
    )


OLYMPIADBENCH = Benchmark(
    "olympiadbench", "olympiad problems", "id", "math", size=674,
    hub="Hothan/OlympiadBench", config="OE_TO_maths_en_COMP", hub_split="train", to_question=to_question,
)  # fmt: skip
