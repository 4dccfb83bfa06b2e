"""MuSiQue: 2,417 answerable questions of two to four hops; twenty passages precede each where given."""

from typing import Any

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row, unique, with_passages
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    text = with_passages(passages(row), row.text("question"))
    golds = unique([row.text("answer"), *row.optional_texts("answer_aliases")])
    return row.question(text, golds, id=row.own_id("id"))


def passages(row: Row) -> list[str]:
    try:
        return [f"{p['title']}: {p['paragraph_text'].strip()}" for p in row.fields.get("paragraphs") or []]
    except (KeyError, TypeError, AttributeError) as error:
        raise row.refuse(
            "field 'paragraphs' is not a list of title and paragraph_text; leave it out or store it as the Hub"
            " does"
        ) from error


def only_answerable(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if fields.get("answerable") is False else [fields]


MUSIQUE = Benchmark(
    "musique", "questions over two to four passages", "ood", "text", size=2417,
    hub="dgslibisey/MuSiQue", hub_split="validation",
    stems=("musique_ans_v1.0_dev",), to_question=to_question, expand=only_answerable,
)  # fmt: skip
