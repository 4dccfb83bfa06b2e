r"""MinervaMath: 272 problems of undergraduate science; the gold is given, or boxed in the solution."""

import re

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question

_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace is no brace


def to_question(row: Row) -> Question:
    gold = row.text("answer") if row.has("answer") else last_boxed(row.text("solution"))
    if not gold:
        raise row.refuse(r"field 'solution' holds no \boxed{} answer; add one or a field 'answer'")
    return row.question(row.text("question", "problem"), gold)


def last_boxed(text: str) -> str:
    r"""The content of the last `\boxed{}` of a text; empty if there is none or it does not close."""
    _, box, rest = text.rpartition(r"\boxed{")
    depth = 1
    for match in _BRACE.finditer(rest) if box else ():
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return rest[: match.start()].strip()
    return ""


MINERVA_MATH = Benchmark(
    "minerva-math", "undergraduate science problems", "id", "math",
    size=272, hub="math-ai/minervamath", hub_split="test", to_question=to_question,
)  # fmt: skip
