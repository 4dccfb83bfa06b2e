"""GSM8K: 1,319 grade-school word problems; the gold answer follows '####'."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    _, mark, gold = row.text("answer").rpartition("####")
    if not mark or not gold.strip():
        raise row.refuse("field 'answer' has no final number after '####'; add it")
    return row.question(row.text("question"), gold.strip().replace(",", ""))


GSM8K = Benchmark(
    "gsm8k", "grade-school word problems", "id", "math",
    size=1319, hub="openai/gsm8k", config="main", hub_split="test", leaderboard="gsm8k",
    to_question=to_question,
)  # fmt: skip
