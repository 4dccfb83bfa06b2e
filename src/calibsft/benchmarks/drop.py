"""DROP: 9,535 questions that count, compare and add over a passage.

The golds are alternatives: each is one span, or several spans joined by newlines. The original file has the answer of
each annotator. The Hub has one list of all their spans: each span is an alternative, and all together are one more.
"""

from dataclasses import replace
from typing import Any

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row, unique, with_passages
from calibsft.schema import Question
from calibsft.verify.drop import alternative


def to_question(row: Row) -> Question:
    passage, question = passage_and_question(row)
    text = with_passages([f"Passage: {passage}"], question)
    return row.question(text, alternatives(row), id=row.own_id("query_id"))


def passage_and_question(row: Row) -> tuple[str, str]:
    if "context" not in row.fields:
        return row.text("passage"), row.text("question")
    prompt = row.text("context").removesuffix("Answer:").strip()
    passage, mark, question = prompt.removeprefix("Passage:").rpartition("\nQuestion:")
    if not mark:
        raise row.refuse("field 'context' has no line 'Question: …' after the passage; add it")
    return passage.strip(), question.strip()


def alternatives(row: Row) -> tuple[str, ...]:
    if "ref_text" in row.fields:
        return unique(text.strip() for text in row.text("ref_text").split("|")) or row.texts("ref_text")
    if "answers_spans" in row.fields:
        return spans_of(row)
    records = [row.fields.get("answer"), *(row.fields.get("validated_answers") or [])]
    found = unique(alternative(record) or "" for record in records if isinstance(record, dict))
    if not found:
        raise row.refuse("field 'answer' holds no number, date or span; fill it or remove the row")
    return found


def spans_of(row: Row) -> tuple[str, ...]:
    answers = row.fields["answers_spans"]
    if not isinstance(answers, dict):
        raise row.refuse("field 'answers_spans' is not an object with spans; store it as the Hub does")
    spans = replace(row, fields=answers).texts("spans")
    return spans if len(spans) == 1 else (*spans, "\n".join(spans))


def questions_of_passage(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The original file has one record per passage, with its questions inside."""
    if not isinstance(fields.get("qa_pairs"), list):
        return [fields]
    passage = {"passage": fields["passage"]} if "passage" in fields else {}
    return [{**passage, **pair} for pair in fields["qa_pairs"] if isinstance(pair, dict)]


DROP = Benchmark(
    "drop", "arithmetic over a passage", "ood", "drop", size=9535,
    hub="ucinlp/drop", hub_split="validation", stems=("drop_dataset_dev",),
    to_question=to_question, expand=questions_of_passage,
)  # fmt: skip
