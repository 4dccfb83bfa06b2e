"""HotpotQA: 7,405 questions that join facts of two articles; ten passages precede each where given."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row, with_passages
from calibsft.schema import Question


def to_question(row: Row) -> Question:
    text = with_passages(passages(row), row.text("question"))
    return row.question(text, row.text("answer"), id=row.own_id("id", "_id"))


def passages(row: Row) -> list[str]:
    """The passages as the Hub stores them - titles and sentences apart - or as pairs in the original file."""
    context = row.fields.get("context") or []
    try:
        if isinstance(context, dict):
            context = zip(context["title"], context["sentences"], strict=True)
        return [f"{title}: {' '.join(s.strip() for s in sentences)}" for title, sentences in context]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise row.refuse(
            "field 'context' is not titles and lists of sentences; leave it out or store it as the Hub does"
        ) from error


HOTPOTQA = Benchmark(
    "hotpotqa", "questions over two articles", "ood", "hotpotqa", size=7405,
    hub="hotpotqa/hotpot_qa", config="distractor", hub_split="validation",
    stems=("hotpot_dev_distractor_v1",), to_question=to_question,
)  # fmt: skip
