"""The questions that RL trains on, with their prompts and how often the starting model solves them.

Drops what teaches nothing: questions that are always solved (for methods with dynamic sampling) and prompts that
are too long, and says how many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from transformers import PreTrainedTokenizerBase

from calibsft.artifacts import QUESTIONS, shards
from calibsft.benchmarks.files import load_questions
from calibsft.errors import InputError
from calibsft.progress import say, warn
from calibsft.responses.formats import Format
from calibsft.rl.method import Method
from calibsft.rollouts.prompts import prompt_ids
from calibsft.schema import Question
from calibsft.tables import read_table

SUCCESS_RATE = "success_rate"
SuccessRates = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """One question as RL asks it; `success_rate` is the starting model's, None where unknown."""

    dataset: str
    id: str
    golds: tuple[str, ...]
    kind: str
    prompt_ids: tuple[int, ...]
    success_rate: float | None
    tolerance: str = ""


def read_questions(data: Path, verdicts: Path | None = None) -> tuple[list[Question], SuccessRates]:
    """Questions and success rates from a file of questions or the folder of a rollout stage.

    Parameters
    ----------
    data
        A CSV, JSONL or Parquet file with question_id, question, gold, and optionally kind and success_rate; or
        the folder that `calibsft rollout` wrote.
    verdicts
        The folder that `calibsft verify` wrote for rollouts of the starting model: success rates come from there.
    """
    if data.is_dir():
        questions = _questions_of_rollouts(data)
        rates: SuccessRates = {}
    else:
        questions = load_questions(data)
        rates = _rates_of_file(data, questions)
    return questions, success_rates(verdicts) if verdicts else rates


def _questions_of_rollouts(folder: Path) -> list[Question]:
    path = folder / QUESTIONS
    if not path.is_file():
        raise InputError(
            f"{folder}: no {QUESTIONS} there; give the folder that calibsft rollout wrote, or a file of questions"
        )
    columns = ("question_id", "question", "gold", "grader", "dataset", "tolerance")
    rows = pl.read_parquet(path).select(columns).iter_rows()
    return [Question(id_, text, tuple(gold), *rest) for id_, text, gold, *rest in rows]


def _rates_of_file(path: Path, questions: Sequence[Question]) -> SuccessRates:
    frame = read_table(path)
    if SUCCESS_RATE not in frame.columns:
        return {}
    given = frame[SUCCESS_RATE]
    rates = pl.Series([None] * len(frame), dtype=pl.Float64) if given.dtype.is_nested() else given
    rates = rates.cast(pl.Float64, strict=False)
    wrong = rates.is_null() | ~rates.is_between(0, 1)
    if wrong.any():
        row = int(wrong.arg_true()[0]) + 1
        raise InputError(
            f"{path}, row {row}: success_rate {frame[SUCCESS_RATE][row - 1]!r} is not a number in [0, 1]; correct it"
            " or leave the column out"
        )
    return {(q.dataset, q.id): rate for q, rate in zip(questions, rates.to_list(), strict=True)}


def success_rates(verdicts: Path) -> SuccessRates:
    """How often each question was solved in a folder of verdicts; ungraded responses do not count."""
    files = shards(verdicts)
    if not files or "correct" not in pl.read_parquet_schema(files[0]):
        raise InputError(f"{verdicts}: no verdicts there; give the folder that calibsft verify wrote")
    counts = (
        pl.scan_parquet(files)
        .drop_nulls("correct")
        .group_by("dataset", "question_id")
        .agg(pl.col("correct").sum(), pl.len())
        .collect()
    )
    return {(dataset, id_): correct / count for dataset, id_, correct, count in counts.iter_rows()}


def training_questions(
    questions: Sequence[Question],
    rates: SuccessRates,
    method: Method,
    tokenizer: PreTrainedTokenizerBase,
    confidence_format: Format,
    max_prompt_tokens: int,
) -> list[TrainingQuestion]:
    """The questions that `method` trains on, in the given order."""
    if method.needs_success_rate:
        _require_rates(questions, rates, method)
    kept = questions
    if method.dynamic_sampling:
        kept = [question for question in questions if rates.get((question.dataset, question.id)) != 1]
        if len(kept) < len(questions):
            say(
                f"rl: {len(questions) - len(kept):,} of {len(questions):,} questions are always solved and left out"
            )
    found = [_with_prompt(question, rates, tokenizer, confidence_format) for question in kept]
    short = [question for question in found if len(question.prompt_ids) <= max_prompt_tokens]
    if len(short) < len(found):
        warn(f"rl: {len(found) - len(short):,} prompts exceed {max_prompt_tokens} tokens and are left out")
    if not short:
        raise InputError(
            "no question is left to train on: all are always solved or have too long a prompt; give harder or"
            " shorter questions, or raise rl.max_prompt_tokens"
        )
    return short


def _require_rates(questions: Sequence[Question], rates: SuccessRates, method: Method) -> None:
    missing = [question.id for question in questions if (question.dataset, question.id) not in rates]
    if missing:
        raise InputError(
            f"{method.name} needs every question's success rate before RL, and {len(missing)} have none (first:"
            f" '{missing[0]}'); add a column success_rate, or give --verdicts from calibsft verify"
        )


def _with_prompt(
    question: Question,
    rates: SuccessRates,
    tokenizer: PreTrainedTokenizerBase,
    confidence_format: Format,
) -> TrainingQuestion:
    return TrainingQuestion(
        question.dataset,
        question.id,
        question.golds,
        question.grader,
        prompt_ids(tokenizer, question.text, confidence_format),
        rates.get((question.dataset, question.id)),
        question.tolerance,
    )
