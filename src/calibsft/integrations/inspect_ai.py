"""Inspect: metrics, scorer and prompt for evaluations there, and evaluations made here as logs.

Inspect finds all of it by the entry point `calibsft`: `calibsft/stated_confidence`,
`calibsft/brier` and so on. The metrics read the confidence in a score's metadata, whichever scorer
put it there. They need one score per response: use no epochs, since reducing them keeps the
confidence of the first.
"""

from importlib.metadata import entry_points, version
from logging import getLogger
from math import nan
from pathlib import Path
from typing import Any

import polars as pl
from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    ModelOutput,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    metric,
    scorer,
    value_to_float,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from calibsft.artifacts import QUESTIONS, read_manifest
from calibsft.errors import InputError
from calibsft.files.parquet import ROWS
from calibsft.integrations.one_answer import grade_answer
from calibsft.metrics.evaluate import checked_responses
from calibsft.metrics.registry import TABLE_METRICS
from calibsft.metrics.table import ConfidenceTable
from calibsft.responses.formats import get_format, messages
from calibsft.responses.parse import Reason, parse
from calibsft.schema import QUESTION_KEYS, Grade
from calibsft.verify.files import DEFAULT_KIND

CONFIDENCE = "confidence"
log = getLogger(__name__)


def _measure(name: str) -> Metric:
    """The metric `name`, NaN where it has no value; an unreadable confidence counts as 0."""
    to_float = value_to_float()

    def measured(scores: list[SampleScore]) -> float:
        found = [item.score for item in scores]
        confidence = [(score.metadata or {}).get(CONFIDENCE) for score in found]
        try:
            rows = checked_responses(
                [0 if value is None else value for value in confidence],
                [to_float(score.value) for score in found],
                None,
            )
        except InputError as error:  # samples are kept, and can be scored again without being sampled
            log.warning(f"{name} has no value: {error}; it needs one score per response, without epochs")
            return nan
        value = TABLE_METRICS[name](ConfidenceTable.from_rows(*rows))
        return nan if value is None else value

    return measured


@metric
def brier() -> Metric:
    return _measure("brier")


@metric
def ece() -> Metric:
    return _measure("ece")


@metric
def auroc() -> Metric:
    return _measure("auroc")


@metric
def e_aurc() -> Metric:
    return _measure("e_aurc")


METRICS = [accuracy(), brier(), ece(), auroc(), e_aurc()]


@solver
def ask_confidence(format: str = "probability") -> Solver:
    """Ask the sample's input with a format's system prompt, as `calibsft eval` does."""
    system, _ = messages("", get_format(format))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        _, asked = messages(state.input_text, get_format(format))
        state.messages = [
            ChatMessageSystem(content=system["content"]),
            ChatMessageUser(content=asked["content"]),
        ]
        return await generate(state)

    return solve


@scorer(metrics=METRICS)
def stated_confidence(kind: str = DEFAULT_KIND, format: str = "probability") -> Scorer:
    """Grade the response's answer against the target, and read the confidence that it states.

    Parameters
    ----------
    kind : the grader of the answer, one of `calibsft ls graders`.
    format : the confidence format that was asked for.
    """
    written = get_format(format)

    async def score(state: TaskState, target: Target) -> Score:
        parsed = parse(
            response_text(state.output), written, finished=state.output.stop_reason != "max_tokens"
        )
        grade = await to_thread.run_sync(grade_answer, kind, tuple(target), parsed.answer)
        return _score(grade, parsed.answer, parsed.confidence, parsed.reason.value)

    return score


def response_text(output: ModelOutput) -> str:
    """What the model wrote, with the reasoning that a provider has taken out of it."""
    message = output.message if output.choices else ChatMessageAssistant(content="")
    if isinstance(message.content, str):
        return message.content
    thought = [part.reasoning for part in message.content if isinstance(part, ContentReasoning)]
    return f"<think>{' '.join(thought)}</think>{message.text}" if thought else message.text


def _score(grade: Grade, answer: str | None, confidence: float | None, reason: str) -> Score:
    facts: dict[str, Any] = {CONFIDENCE: confidence, "reason": reason, "grade": grade.value}
    if not grade.scored:
        return Score.unscored(reason="grader_failed", answer=answer, metadata=facts)
    value = CORRECT if grade is Grade.CORRECT else INCORRECT
    return Score(value=value, answer=answer, explanation=_explanation(confidence, reason), metadata=facts)


def _explanation(confidence: float | None, reason: str) -> str:
    """What `inspect view` shows beside the verdict."""
    stated = "No confidence is stated" if confidence is None else f"Stated confidence: {confidence:g}"
    return stated if reason == Reason.OK else f"{stated}; malformed: {reason}"


@task
def evaluation(folder: str) -> Task:
    """What `calibsft eval` left in `folder`, as a log: a sample per response, its verdict as score.

    No model is asked: `inspect eval calibsft/evaluation -T folder=eval --model none/none`.
    """
    path = Path(folder)
    read_manifest(path)
    asked = pl.read_parquet(path / "rollouts" / QUESTIONS, columns=[*QUESTION_KEYS, "question", "gold"])
    rows = pl.read_parquet(path / ROWS).join(asked, on=QUESTION_KEYS, how="left", maintain_order="left")
    samples = [
        Sample(
            id=f"{row['dataset']}/{row['question_id']}/{row['sample']}",
            input=row["question"],
            target=row["gold"],
            metadata={name: row[name] for name in VERDICT},
        )
        for row in rows.iter_rows(named=True)
    ]
    return Task(MemoryDataset(samples, name=path.name), solver=stored_response(), scorer=stored_verdict())


# What a sample of a stored evaluation knows of its response.
VERDICT = ("response", "grade", "answer", CONFIDENCE, "reason")


@solver
def stored_response() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("calibsft", state.metadata["response"])
        state.messages.append(state.output.message)
        return state

    return solve


@scorer(metrics=METRICS)
def stored_verdict() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        _, grade, *rest = (state.metadata[name] for name in VERDICT)
        return _score(Grade(grade), *rest)

    return score


def registered() -> str:
    """What Inspect has of the plug-in; raises `LookupError` if it does not look for it here."""
    if __name__ not in {point.value for point in entry_points(group="inspect_ai")}:
        raise LookupError(
            "Inspect does not look for calibsft; install calibsft again, in Inspect's environment"
        )
    return f"inspect_ai {version('inspect_ai')} has the scorer 'calibsft/stated_confidence' and its metrics"
