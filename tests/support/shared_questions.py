"""For tests of RL over two processes: questions, and which of them the second process asks."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.sampling import QuestionPlan


def of_second_process(questions: range, seed: int) -> set[int]:
    """The questions that the second of two processes asks in its first round."""
    asked = [TrainingQuestion("d", str(a), (), "exact", (), None) for a in questions]
    visits = list(islice(QuestionPlan(asked, seed).visits(0), len(questions)))
    return {int(visit.question.id) for visit in visits[1::2]}


# Digits in the middle of a product are the last that a model learns, so a short training answers half of them even,
# whatever the processor: no group hangs on one rare right answer.
EVEN_TENS = [f"{n:04d}" for n in range(10_000) if n // 10 % 2 == 0]


def write_questions(path: Path, golds: dict[int, list[str]], **columns: Callable[[int], object]) -> Path:
    rows = [
        {
            "question_id": a, "question": f"{a}*7", "gold": gold, "kind": "exact",
            **{name: value(a) for name, value in columns.items()},
        }
        for a, gold in golds.items()
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
