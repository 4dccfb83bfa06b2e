"""The questions that RL trains on, with their prompts and the starting model's success rates.

Drops questions that are always solved (where there is dynamic sampling) and prompts that are too long, and reports how
many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from transformers import PreTrainedTokenizerBase

from calibsft.artifacts import QUESTIONS, shards
from calibsft.benchmarks.files import load_questions
from calibsft.errors import InputError
from calibsft.evaluation.same_questions import read_asked
from calibsft.files.cells import row_of, text_column
from calibsft.files.reading import read_table
from calibsft.progress import info, warn
from calibsft.responses.prompts import Prompting
from calibsft.rl.method import Method
from calibsft.rl.settings import MethodSettings
from calibsft.schema import QUESTION_KEYS, Question
from calibsft.success_rates import count_endings, ending_lines, rate_questions

SUCCESS_RATE = "success_rate"
SuccessRates = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """One question as RL asks it; `success_rate` is the starting model's, None if unknown. `text` is for a judge."""

    dataset: str
    id: str
    golds: tuple[str, ...]
    kind: str
    prompt_ids: tuple[int, ...]
    success_rate: float | None
    tolerance: str = ""
    text: str = ""


def read_questions(data: Path, verdicts: Path | None = None) -> tuple[list[Question], SuccessRates]:
    """Questions and success rates from a file of questions or the folder of a rollout stage.

    Questions with ungraded verdicts are left out: their responses could not be rewarded either.

    Parameters
    ----------
    data
        A CSV, JSONL or Parquet file with question_id, question, gold, and optionally kind and success_rate; or
        the folder that `calibsft rollout` wrote.
    verdicts
        The folder that `calibsft verify` wrote for rollouts of the starting model; gives the success rates.
    """
    if data.is_dir():
        questions = _questions_of_rollouts(data)
        rates: SuccessRates = {}
    else:
        questions = load_questions(data)
        rates = _rates_of_file(data, questions)
    if verdicts is None:
        return questions, rates
    labels = _labels_of(verdicts)
    for line in ending_lines(count_endings(labels)):
        info(f"rl: {line}")
    rates = _success_rates(labels, str(verdicts))
    ungraded = set(labels.select(QUESTION_KEYS).iter_rows()) - rates.keys()
    return [question for question in questions if (question.dataset, question.id) not in ungraded], rates


def _questions_of_rollouts(folder: Path) -> list[Question]:
    path = folder / QUESTIONS
    if not path.is_file():
        raise InputError(
            f"{folder}: no {QUESTIONS} there; give the folder that calibsft rollout wrote, or a file of questions"
        )
    return read_asked(path)


def _rates_of_file(path: Path, questions: Sequence[Question]) -> SuccessRates:
    frame = read_table(path)
    if SUCCESS_RATE not in frame.columns:
        return {}
    given = frame[SUCCESS_RATE]
    rates = given if given.dtype.is_numeric() else text_column(path, frame, SUCCESS_RATE)
    rates = rates.cast(pl.Float64, strict=False)
    wrong = rates.is_null() | ~rates.is_between(0, 1)
    if wrong.any():
        row = row_of(wrong)
        raise InputError(
            f"{path}, row {row}: success_rate {frame[SUCCESS_RATE][row - 1]!r} is not a number in [0, 1]; correct it"
            " or leave the column out"
        )
    return {(q.dataset, q.id): rate for q, rate in zip(questions, rates.to_list(), strict=True)}


def _labels_of(verdicts: Path) -> pl.DataFrame:
    """Correctness and ending of each response, from which success rates are computed."""
    files = shards(verdicts)
    if not files or "correct" not in pl.read_parquet_schema(files[0]):
        raise InputError(f"{verdicts}: no verdicts there; give the folder that calibsft verify wrote")
    return pl.scan_parquet(files).select(*QUESTION_KEYS, "correct", "ending").collect()


def _success_rates(labels: pl.DataFrame, source: str) -> SuccessRates:
    """The success rate of each question without ungraded responses."""
    rated = rate_questions(labels, source).unique(QUESTION_KEYS).select(*QUESTION_KEYS, "k", "n")
    return {(dataset, id_): k / n for dataset, id_, k, n in rated.iter_rows()}


def training_questions(
    questions: Sequence[Question],
    rates: SuccessRates,
    method: Method,
    settings: MethodSettings,
    tokenizer: PreTrainedTokenizerBase,
    prompting: Prompting,
    max_prompt_tokens: int,
) -> list[TrainingQuestion]:
    """The questions that `method` trains on with its `settings`, in the given order.

    `max_prompt_tokens` may be fewer than the settings say, for a model with a short context.
    """
    if method.needs_success_rate:
        _require_rates(questions, rates, method)
    kept = _unsolved(questions, rates) if method.is_dynamic(settings) else questions
    short = with_prompts(kept, rates, tokenizer, prompting, max_prompt_tokens)
    if not short:
        raise InputError(
            "no question is left to train on: all are always solved or have too long a prompt; give harder or"
            " shorter questions, or raise rl.max_prompt_tokens"
        )
    return short


def with_prompts(
    questions: Sequence[Question],
    rates: SuccessRates,
    tokenizer: PreTrainedTokenizerBase,
    prompting: Prompting,
    max_prompt_tokens: int,
) -> list[TrainingQuestion]:
    """The questions as RL asks them, without those whose prompt is too long."""
    found = [
        TrainingQuestion(
            question.dataset,
            question.id,
            question.golds,
            question.grader,
            prompting.ids(tokenizer, question.text),
            rates.get((question.dataset, question.id)),
            question.tolerance,
            question.text,
        )
        for question in questions
    ]
    short = [question for question in found if len(question.prompt_ids) <= max_prompt_tokens]
    if len(short) < len(found):
        warn(f"rl: {len(found) - len(short):,} prompts exceed {max_prompt_tokens} tokens and are left out")
    return short


def _require_rates(questions: Sequence[Question], rates: SuccessRates, method: Method) -> None:
    missing = [question.id for question in questions if (question.dataset, question.id) not in rates]
    if missing:
        raise InputError(
            f"{method.name} needs every question's success rate before RL, and {len(missing)} have none (first:"
            f" '{missing[0]}'); add a column success_rate, or give --verdicts from calibsft verify"
        )


def _unsolved(questions: Sequence[Question], rates: SuccessRates) -> Sequence[Question]:
    """The questions that are not always solved."""
    kept = [question for question in questions if rates.get((question.dataset, question.id)) != 1]
    if left_out := len(questions) - len(kept):
        info(f"rl: {left_out:,} of {len(questions):,} questions are always solved and left out")
    return kept
