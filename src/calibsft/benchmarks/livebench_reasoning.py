"""LiveBench reasoning: 200 puzzles of three kinds, each kind with rules of its own for grading."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.files.cells import shown
from calibsft.schema import Question

# From this release on, a zebra puzzle asks several things at once.
SEVERAL_ANSWERS_SINCE = "2024-11-25"


def to_question(row: Row) -> Question:
    turn = row.texts("turns")[0]
    return row.question(turn, row.text("ground_truth"), id=row.own_id("question_id"), grader=grader_of(row))


def grader_of(row: Row) -> str:
    task = row.text("task")
    if task == "web_of_lies_v2":
        return "livebench-web-of-lies"
    if task == "spatial":
        return "livebench-spatial"
    if task != "zebra_puzzle":
        raise row.refuse(
            f"task {shown(task)} has no grader; keep web_of_lies_v2, zebra_puzzle and spatial only"
        )
    if not row.has("livebench_release_date"):
        raise row.refuse("field 'livebench_release_date' is missing; the puzzle's rules depend on it: add it")
    released = str(row.fields["livebench_release_date"])[:10]  # a text, or a date on the Hub
    return "livebench-zebra" if released >= SEVERAL_ANSWERS_SINCE else "livebench-zebra-word"


LIVEBENCH_REASONING = Benchmark(
    "livebench-reasoning", "logic puzzles", "ood", "livebench", size=200,
    hub="livebench/reasoning", hub_split="test", to_question=to_question,
    parts=("spatial.question", "web_of_lies_v2.question", "zebra_puzzle.question"),
)  # fmt: skip
