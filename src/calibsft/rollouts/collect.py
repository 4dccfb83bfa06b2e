"""Ask a model every question n times and keep its responses, resumably.

Shard k holds the samples of a fixed slice of the questions, and the seed of a sample comes from its id. A killed run
leaves complete shards; a rerun writes the missing ones, with the same rows as an uninterrupted run. Does not know which
responses are correct: that is `verify`.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, shard_name, shards, write_parquet
from calibsft.engines.engine import Completion, Engine, Request, Sampling, sample_seed
from calibsft.errors import InputError
from calibsft.progress import Progress, warn
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.responses.prompts import prompt_ids, require_room
from calibsft.rollouts.endings import Cut, force_endings
from calibsft.rollouts.read import text_offsets, value_entropy
from calibsft.rollouts.settings import RolloutSettings, SampledSettings
from calibsft.schema import Question, Rollout

ROLLOUT_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "dataset": pl.String,
    "question_id": pl.String,
    "sample": pl.Int32,
    "response": pl.String,
    "token_ids": pl.List(pl.Int32),
    "finished": pl.Boolean,
    "mean_logprob": pl.Float32,
    "confidence_entropy": pl.Float32,
    "forced_answer": pl.String,
}


class Collector:
    """Collects the rollouts of one stage. With `force_answer` it asks for the answers of truncated responses."""

    def __init__(
        self,
        engine: Engine,
        confidence_format: Format,
        sampling: Sampling,
        seed: int,
        force_answer: bool = False,
    ) -> None:
        self.engine, self.tokenizer, self.format = engine, engine.tokenizer, confidence_format
        self.sampling, self.seed, self.force_answer = sampling, seed, force_answer
        self._pieces: dict[int, str] = {}

    def collect(
        self,
        questions: Sequence[Question],
        samples: Callable[[Question], int],
        folder: Path,
        shard_questions: int,
        label: str,
    ) -> int:
        """Fill `folder` with the rollouts of all `questions`; returns the number of their tokens."""
        _require_unique(questions)
        prompts = {(q.dataset, q.id): prompt_ids(self.tokenizer, q.text, self.format) for q in questions}
        for (_, question_id), prompt in prompts.items():
            require_room(prompt, self.engine.context, question_id)
        _keep_questions(folder, questions_frame(questions))
        plan = {
            shard_name(i // shard_questions): questions[i : i + shard_questions]
            for i in range(0, len(questions), shard_questions)
        }
        missing = {
            name: part for name, part in plan.items() if not _is_complete(folder / name, part, samples)
        }
        _refuse_foreign(folder, plan)
        done = sum(samples(q) for name, part in plan.items() if name not in missing for q in part)
        with Progress(label, sum(samples(q) for q in questions), "responses", done) as progress:
            for name, part in missing.items():
                requests = [Request(prompts[q.dataset, q.id], self._seeds(q, samples(q))) for q in part]
                results = self.engine.generate(requests, self.sampling, progress.advance)
                rows = [
                    self._rollout(q, i, c)
                    for q, row in zip(part, results, strict=True)
                    for i, c in enumerate(row)
                ]
                write_parquet(folder / name, rollouts_frame(self._with_forced_answers(part, rows)))
        lengths = pl.scan_parquet([folder / name for name in plan]).select(
            pl.col("token_ids").list.len().sum()
        )
        return int(lengths.collect().item())

    def end(self, cut: Sequence[tuple[Question, int, tuple[int, ...]]]) -> list[Rollout]:
        """Make responses - question, sample, tokens to keep - end with an answer and a confidence."""
        endings = self._endings(cut, self.sampling, confidence=True)
        return [self._rollout(q, sample, c) for (q, sample, _), c in zip(cut, endings, strict=True)]

    def _with_forced_answers(self, questions: Sequence[Question], rows: list[Rollout]) -> list[Rollout]:
        """`rows`; truncated ones get the answer that the model gives when asked for it, greedily."""
        by_key = {(q.dataset, q.id): q for q in questions}
        truncated = [i for i, row in enumerate(rows) if self.force_answer and not row.finished]
        cut = [
            (by_key[rows[i].dataset, rows[i].question_id], rows[i].sample, rows[i].token_ids)
            for i in truncated
        ]
        endings = self._endings(cut, Sampling(temperature=0), confidence=False)
        for i, ending in zip(truncated, endings, strict=True):
            text = text_offsets(self.tokenizer, ending, self.engine.end_ids, self._pieces).text
            rows[i] = replace(rows[i], forced_answer=parse(text, self.format).answer)
        return rows

    def _endings(
        self, cut: Sequence[tuple[Question, int, tuple[int, ...]]], sampling: Sampling, confidence: bool
    ) -> list[Completion]:
        cuts = [
            Cut(
                prompt_ids(self.tokenizer, q.text, self.format),
                ids[:-1] if ids and ids[-1] in self.engine.end_ids else ids,
                sample_seed(self.seed, q.dataset, f"{q.id}\0ending", sample),
            )
            for q, sample, ids in cut
        ]
        return force_endings(self.engine, cuts, sampling, confidence)

    def _seeds(self, question: Question, count: int) -> tuple[int, ...]:
        return tuple(sample_seed(self.seed, question.dataset, question.id, i) for i in range(count))

    def _rollout(self, question: Question, sample: int, completion: Completion) -> Rollout:
        offsets = text_offsets(self.tokenizer, completion, self.engine.end_ids, self._pieces)
        return Rollout(
            dataset=question.dataset,
            question_id=question.id,
            sample=sample,
            response=offsets.text,
            token_ids=completion.token_ids,
            finished=completion.finished,
            mean_logprob=_known(float(completion.logprobs.mean())),
            confidence_entropy=_known(value_entropy(offsets, parse(offsets.text, self.format), completion)),
        )


def make_collector(
    engine: Engine, confidence_format: Format, settings: SampledSettings, seed: int
) -> Collector:
    """A collector that samples with `engine` as the settings say."""
    sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.stop)
    force_answer = isinstance(settings, RolloutSettings) and settings.force_answer
    return Collector(engine, confidence_format, sampling, seed, force_answer)


def _keep_questions(folder: Path, questions: pl.DataFrame) -> None:
    """Write the questions; refuse a folder whose responses belong to other questions."""
    path = folder / QUESTIONS
    if path.is_file() and shards(folder) and not pl.read_parquet(path).equals(questions):
        raise InputError(
            f"{folder}: the questions have changed since its responses were sampled; choose another folder with --out"
        )
    write_parquet(path, questions)


def _known(figure: float | None) -> float | None:
    """`figure`, None if it involves tokens that were not sampled."""
    return None if figure is None or math.isnan(figure) else figure


def _is_complete(path: Path, part: Sequence[Question], samples: Callable[[Question], int]) -> bool:
    """Whether the shard exists and is complete; a damaged one is reported and sampled again."""
    if not path.is_file():
        return False
    planned = {(q.dataset, q.id, i) for q in part for i in range(samples(q))}
    try:
        found = set(pl.read_parquet(path, columns=["dataset", "question_id", "sample"]).iter_rows())
    except (pl.exceptions.PolarsError, OSError):
        found = set()
    if found == planned:
        return True
    warn(f"{path} is damaged or does not hold its planned rows: it is sampled again")
    return False


def _refuse_foreign(folder: Path, plan: dict[str, Sequence[Question]]) -> None:
    """Refuse shards that are not in the plan: the next stage would read them."""
    foreign = [path for path in shards(folder) if path.name not in plan]
    if foreign:
        raise InputError(
            f"{foreign[0]}: this shard does not belong to the planned work; move it out of the folder"
        )


def _require_unique(questions: Sequence[Question]) -> None:
    """Refuse repeated ids: rows are identified by them."""
    for (dataset, question_id), count in Counter((q.dataset, q.id) for q in questions).items():
        if count > 1:
            raise InputError(
                f"question id '{question_id}' occurs twice in {dataset}; give every question its own id"
            )


def questions_frame(questions: Sequence[Question]) -> pl.DataFrame:
    """Questions as a table; `gold` is a list of aliases."""
    return pl.DataFrame(
        {
            "dataset": [q.dataset for q in questions],
            "question_id": [q.id for q in questions],
            "question": [q.text for q in questions],
            "gold": [list(q.golds) for q in questions],
            "grader": [q.grader for q in questions],
            "tolerance": [q.tolerance for q in questions],
        }
    )


def rollouts_frame(rows: Sequence[Rollout]) -> pl.DataFrame:
    columns = {name: [getattr(row, name) for row in rows] for name in ROLLOUT_SCHEMA}
    return pl.DataFrame(columns, schema=ROLLOUT_SCHEMA)
