"""WebQuestions: 2,032 questions whose answer is a set; the golds are its members, all asked for."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    return row.question(row.text("question"), row.texts("answers", "answer"))


WEBQUESTIONS = Benchmark(
    "webquestions", "questions with sets of answers", "ood", "set", size=2032,
    hub="stanfordnlp/web_questions", hub_split="test", to_question=to_question,
)  # fmt: skip
