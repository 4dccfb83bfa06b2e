"""A small folder of rollouts and its verdicts for tests of evidence, written and graded as a run does it."""

from dataclasses import dataclass
from pathlib import Path

from calibsft.artifacts import QUESTIONS, shard_name, write_parquet
from calibsft.responses.formats import FORMATS
from calibsft.rollouts.collect import rollouts_frame
from calibsft.rollouts.plan import questions_frame
from calibsft.schema import Question, Rollout
from calibsft.verify.verdicts import verify_responses

# Responses by question, one shard each: an answer, or None for a response without one.
ANSWERS: dict[Question, list[str | None]] = {
    Question("half", "What is a half?", "1/2", "math", "d"): ["1/2", "0.5", "3", None, r"\frac12"],
    Question("city", "Which city?", "Rome", "text", "d"): ["Rome", "the rome!", "Paris"],
}


@dataclass(frozen=True)
class Run:
    rollouts: Path
    verdicts: Path


def response(answer: str | None) -> str:
    said = "" if answer is None else f"<answer>{answer}</answer>"
    return f"<think></think>{said}<confidence>0.50</confidence>"


def write_run(folder: Path, asked: dict[Question, list[str | None]] | None = None) -> Run:
    """The responses of each question in a shard of its own, and their verdicts; the last one's log-probability is unknown."""
    asked = asked or ANSWERS
    run = Run(folder / "rollouts", folder / "verdicts")
    write_parquet(run.rollouts / QUESTIONS, questions_frame(list(asked)))
    for number, (question, answers) in enumerate(asked.items()):
        rows = [
            Rollout(
                question.dataset, question.id, sample, response(answer), (1, 2), True,
                mean_logprob=None if sample == len(answers) - 1 else -0.25 * sample, confidence_entropy=None,
            )
            for sample, answer in enumerate(answers)
        ]  # fmt: skip
        write_parquet(run.rollouts / shard_name(number), rollouts_frame(rows))
    verify_responses(run.rollouts, FORMATS["probability"], run.verdicts, "verify")
    return run
