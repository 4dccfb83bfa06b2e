"""DeepScaleR: competition problems to train on, and 2,000 of them held out as DeepScaleR-Eval.

Questions are the same if they are after collapsing white space and folding case. Each is kept once; one whose
copies disagree about the answer is dropped, and so is one without an answer. The held-out questions are those
with the smallest hashes of seed and question: a shuffle of positions would send every question to another
side as soon as the data has one row more or less, while here such a row moves at most one.
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
    """What two texts of one question have in common."""
    return " ".join(text.split()).casefold()


def clean(questions: list[Question]) -> list[Question]:
    """Each question once, without those that have no answer or several; in the order of `place`."""
    copies = defaultdict(list)
    for question in questions:
        copies[same(question.text)].append(question)
    if empty := sum(not question.gold for question in questions):
        warn(f"DeepScaleR: {empty} rows have no answer; their questions are left out")
    agreed = [group for group in copies.values() if len({q.gold for q in group}) == 1 and group[0].gold]
    # Of texts that differ in space or case, the smallest: the choice must not depend on the rows' order.
    return sorted((min(group, key=lambda q: q.text) for group in agreed), key=place)


def place(question: Question) -> bytes:
    """Where a question stands in the seeded order, whatever other questions there are."""
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
