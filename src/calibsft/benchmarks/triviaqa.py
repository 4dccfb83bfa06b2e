"""TriviaQA: trivia questions without context; a judge compares the answer with the aliases.

The Hub lists a question once per kind of evidence, under one id; it is asked once.
"""

from dataclasses import replace

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row, unique
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    answer = row.fields.get("answer")
    golds = aliases_of(row, answer) if isinstance(answer, dict) else row.texts("answer", "answers", "aliases")
    return row.question(row.text("question"), golds, id=row.own_id("question_id"))


def aliases_of(row: Row, answer: dict[str, object]) -> tuple[str, ...]:
    """The answer's name and its aliases; the normalised ones only if there are no others."""
    inner = replace(row, fields=answer)
    value = inner.optional_text("value") if inner.has("value") else ""
    found = unique([value, *inner.optional_texts("aliases")]) or inner.optional_texts("normalized_aliases")
    if not found:
        raise row.refuse("field 'answer' is empty: no value and no aliases; fill it or remove the row")
    return found


TRIVIAQA = Benchmark(
    "triviaqa", "trivia questions", "ood", "judge", size=11313,
    hub="mandarjoshi/trivia_qa", config="rc.nocontext", hub_split="validation", to_question=to_question,
)  # fmt: skip
