"""LiveBench reasoning: 200 puzzles of three kinds; each kind has its own grader."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.files.cells import shown
from calibsft.schema import Question

# From this release on, a zebra puzzle has several answers.
SEVERAL_ANSWERS_SINCE = "2024-11-25"
WEB_OF_LIES, SPATIAL = "livebench-web-of-lies", "livebench-spatial"
ZEBRA, ZEBRA_WORD = "livebench-zebra", "livebench-zebra-word"
ONE_GRADER = {"web_of_lies_v2": WEB_OF_LIES, "spatial": SPATIAL}


def to_question(row: Row) -> Question:
    turn = row.texts("turns")[0]
    return row.question(turn, row.text("ground_truth"), id=row.own_id("question_id"), grader=grader_of(row))


def grader_of(row: Row) -> str:
    task = row.text("task")
    if task in ONE_GRADER:
        return ONE_GRADER[task]
    if task != "zebra_puzzle":
        raise row.refuse(
            f"task {shown(task)} has no grader; keep web_of_lies_v2, zebra_puzzle and spatial only"
        )
    if not row.has("livebench_release_date"):
        raise row.refuse("field 'livebench_release_date' is missing; the puzzle's rules depend on it: add it")
    released = str(row.fields["livebench_release_date"])[:10]  # a text, or a date on the Hub
    return ZEBRA if released >= SEVERAL_ANSWERS_SINCE else ZEBRA_WORD


LIVEBENCH_REASONING = Benchmark(
    "livebench-reasoning", "logic puzzles", "ood", "livebench", size=200,
    hub="livebench/reasoning", hub_split="test", to_question=to_question,
    parts=("spatial.question", "web_of_lies_v2.question", "zebra_puzzle.question"),
    row_graders=(WEB_OF_LIES, SPATIAL, ZEBRA, ZEBRA_WORD),
)  # fmt: skip
