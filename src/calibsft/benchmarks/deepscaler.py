"""DeepScaleR: competition problems to train on, and 2,000 of them held out as DeepScaleR-Eval.

Questions are the same if they differ only in white space and case. Each is kept once. A question is dropped if its copies
have different answers, or none. The held-out questions are those with the smallest hashes of seed and question. After a
shuffle of positions, one row more or less could move every question to the other side; by hashes it moves at most one.
"""

from collections import defaultdict
from hashlib import sha256

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.progress import warn
from calibsft.schema import Question

SEED = 43
HELD_OUT = 2000


def to_question(row: Row) -> Question:
    text = row.text("problem")
    return row.question(text, row.optional_text("answer"), id=sha256(same(text).encode()).hexdigest()[:16])


def same(text: str) -> str:
    """The normal form of a question's text."""
    return " ".join(text.split()).casefold()


def clean(questions: list[Question]) -> list[Question]:
    """Each question once, without those that have no answer or several, in the order of `place`."""
    copies = defaultdict(list)
    for question in questions:
        copies[same(question.text)].append(question)
    if empty := sum(not question.gold for question in questions):
        warn(f"DeepScaleR: {empty} rows have no answer; their questions are left out")
    agreed = [group for group in copies.values() if len({q.gold for q in group}) == 1 and group[0].gold]
    # Of texts that differ in space or case, the smallest, so that the choice does not depend on the order of rows.
    return sorted((min(group, key=lambda q: q.text) for group in agreed), key=place)


def place(question: Question) -> bytes:
    """The sort key of a question in the seeded order; it does not depend on other questions."""
    return sha256(f"{SEED}\0{same(question.text)}".encode()).digest()


def held_out(questions: list[Question]) -> list[Question]:
    return clean(questions)[:HELD_OUT]


def for_training(questions: list[Question]) -> list[Question]:
    return clean(questions)[HELD_OUT:]


DEEPSCALER_EVAL = Benchmark(
    "deepscaler-eval", "held-out competition problems", "id", "math", size=HELD_OUT,
    hub="agentica-org/DeepScaleR-Preview-Dataset", hub_split="train", stems=("deepscaler",),
    to_question=to_question, select=held_out,
)  # fmt: skip
DEEPSCALER = Benchmark(
    "deepscaler", "competition problems to train on", "id", "math", size=36_915,
    hub="agentica-org/DeepScaleR-Preview-Dataset", hub_split="train",
    to_question=to_question, select=for_training, training=True,
)  # fmt: skip
