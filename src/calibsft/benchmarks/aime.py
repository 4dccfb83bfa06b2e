r"""AIME 2024, 2025 and 2026: 30 competition problems each, whose answers are whole numbers from 0 to 999.

There are few questions, so each is asked 32 times. Some copies of the data end each problem with a line that asks for
`\boxed{}`. It is left out, since the response format says where the answer goes.
"""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.row import Row
from calibsft.schema import Question

SAMPLES = 32
HUB = {2024: "HuggingFaceH4/aime_2024", 2025: "MathArena/aime_2025", 2026: "MathArena/aime_2026"}
LEADERBOARDS = {2026: "MathArena/aime_2026"}


def to_question(row: Row) -> Question:
    text = row.text("problem", "prompt")
    problem, _, last_line = text.rpartition("\n")
    asks_for_box = problem.strip() and r"\boxed" in last_line
    id_ = row.own_id("id", "problem_idx")
    return row.question(problem.strip() if asks_for_box else text, row.text("answer"), id=id_)


AIME = [
    Benchmark(
        f"aime-{year}", "competition problems with whole answers", "id", "math", SAMPLES,
        size=30, hub=hub, hub_split="train", leaderboard=LEADERBOARDS.get(year, ""),
        to_question=to_question,
    )
    for year, hub in HUB.items()
]  # fmt: skip
