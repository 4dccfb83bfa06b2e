r"""MinervaMath: 272 problems of undergraduate science; the gold is given, or boxed in the solution."""

import re

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question
from calibsft.verify.math.prose import closing_brace

_ESCAPED = re.compile(r"\\.", re.DOTALL)


def to_question(row: Row) -> Question:
    gold = row.text("answer") if row.has("answer") else last_boxed(row.text("solution"))
    if not gold:
        raise row.refuse(r"field 'solution' holds no \boxed{} answer; add one or a field 'answer'")
    return row.question(row.text("question", "problem"), gold)


def last_boxed(text: str) -> str:
    r"""The content of the last `\boxed{}` of a text; empty if there is none or it does not close."""
    _, box, rest = text.rpartition(r"\boxed{")
    end = closing_brace(_ESCAPED.sub("  ", rest))  # an escaped brace is no brace
    return rest[:end].strip() if box and end < len(rest) else ""


MINERVA_MATH = Benchmark(
    "minerva-math", "undergraduate science problems", "id", "math",
    size=272, hub="math-ai/minervamath", hub_split="test", to_question=to_question,
)  # fmt: skip
