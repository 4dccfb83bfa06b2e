"""Ask a model every question n times and keep its responses, resumably.

Shard k holds the samples of a fixed slice of the questions, and the seed of a sample comes from its id. A killed run
leaves complete shards and the finished samples of one more; a rerun draws what is missing, with the same rows as an
uninterrupted run. Does not know which responses are correct: that is `verify`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_parquet
from calibsft.engines.engine import Completion, Engine, Request, Sampling, sample_seed
from calibsft.progress import Progress
from calibsft.responses.parse import parse
from calibsft.responses.prompts import Prompting
from calibsft.rollouts.endings import Cut, force_endings
from calibsft.rollouts.partial import PartialShard, remove_journal
from calibsft.rollouts.plan import Plan, keep_questions, plan_of
from calibsft.rollouts.read import text_offsets, value_entropy
from calibsft.rollouts.settings import RolloutSettings, SampledSettings
from calibsft.rollouts.usage import counted
from calibsft.schema import Question, Rollout
from calibsft.table_schemas import KEY_COLUMNS, Columns

ROLLOUT_SCHEMA: Columns = {
    **KEY_COLUMNS,
    "response": pl.String,
    "token_ids": pl.List(pl.Int32),
    "finished": pl.Boolean,
    "mean_logprob": pl.Float32,
    "confidence_entropy": pl.Float32,
    "forced_answer": pl.String,
    "finish_reason": pl.String,
    "error": pl.String,
}

Prompts = dict[tuple[str, str], tuple[int, ...]]


@dataclass(eq=False)
class Collector:
    """Collects the rollouts of one stage. With `force_answer` it asks for the answers of truncated responses."""

    engine: Engine
    prompting: Prompting
    sampling: Sampling
    seed: int
    force_answer: bool = False

    def __post_init__(self) -> None:
        self.tokenizer, self.format = self.engine.tokenizer, self.prompting.format
        self._pieces: dict[int, str] = {}

    def collect(
        self,
        questions: Sequence[Question],
        samples: Callable[[Question], int],
        folder: Path,
        shard_questions: int,
        label: str,
        share: str | None = None,
    ) -> int:
        """Fill `folder` with the rollouts of all `questions`, or of one share such as "2/8"; returns the number of tokens."""
        plan = plan_of(questions, samples, shard_questions).share(share)
        prompts = {(q.dataset, q.id): self.prompting.ids(self.tokenizer, q.text) for q in questions}
        for (_, question_id), prompt in prompts.items():
            self.prompting.require_room(prompt, self.engine.context, question_id)
        keep_questions(folder, questions)
        missing = plan.missing(folder, ROLLOUT_SCHEMA)
        for name in plan.parts.keys() - set(missing):
            # an earlier run may have been killed between writing the shard and removing its journal
            remove_journal(folder / name)
        paid = bool(self.engine.usage)
        partial = {name: PartialShard(folder / name, plan.keys(name), paid) for name in missing}
        wanted, left = (sum(len(plan.keys(name)) for name in names) for names in (plan.parts, missing))
        done = wanted - left + sum(len(shard.rows) for shard in partial.values())
        with Progress(label, wanted, "responses", done) as progress:
            for name in missing:
                shard = partial.pop(name)
                with counted(self.engine, folder):
                    self._sample(plan, name, prompts, shard, progress)
                rows = [shard.rows[key] for key in plan.keys(name)]
                write_parquet(
                    folder / name, rollouts_frame(self._with_forced_answers(plan.parts[name], rows))
                )
                remove_journal(folder / name)
        lengths = (pl.read_parquet(folder / name, columns=["token_ids"]) for name in plan.parts)
        return sum(int(shard["token_ids"].list.len().sum()) for shard in lengths)

    def _sample(
        self, plan: Plan, name: str, prompts: Prompts, shard: PartialShard, progress: Progress
    ) -> None:
        """Draw the samples that `shard` lacks, and add each as soon as it is there."""
        questions = plan.parts[name]
        requests = [self._request(q, prompts[q.dataset, q.id], plan.samples(q), shard) for q in questions]

        def keep(request: int, sample: int, completion: Completion) -> None:
            if sample not in requests[request].done:
                shard.add(self._rollout(questions[request], sample, completion))
                progress.advance(1, len(completion.token_ids))

        try:
            self.engine.generate(requests, self.sampling, keep)
        except BaseException:
            shard.save()
            raise

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
                self.prompting.ids(self.tokenizer, q.text),
                ids[:-1] if ids and ids[-1] in self.engine.end_ids else ids,
                sample_seed(self.seed, q.dataset, f"{q.id}\0ending", sample),
            )
            for q, sample, ids in cut
        ]
        return force_endings(self.engine, cuts, sampling, confidence)

    def _request(self, q: Question, prompt: tuple[int, ...], samples: int, shard: PartialShard) -> Request:
        seeds = tuple(sample_seed(self.seed, q.dataset, q.id, i) for i in range(samples))
        done = frozenset(i for i in range(samples) if (q.dataset, q.id, i) in shard.rows)
        return Request(prompt, seeds, done, self.prompting.turns(q.text), self.prompting.template)

    def _rollout(self, question: Question, sample: int, completion: Completion) -> Rollout:
        offsets = text_offsets(self.tokenizer, completion, self.engine.end_ids, self._pieces)
        return Rollout(
            dataset=question.dataset,
            question_id=question.id,
            sample=sample,
            response=offsets.text,
            token_ids=completion.token_ids,
            finished=completion.finished,
            mean_logprob=_known(float(completion.logprobs.mean())) if completion.token_ids else None,
            confidence_entropy=_known(value_entropy(offsets, parse(offsets.text, self.format), completion)),
            finish_reason=completion.finish_reason,
            error=completion.error,
        )


def make_collector(engine: Engine, prompting: Prompting, settings: SampledSettings, seed: int) -> Collector:
    """A collector that samples with `engine` as the settings say."""
    sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.stop)
    force_answer = isinstance(settings, RolloutSettings) and settings.force_answer
    return Collector(engine, prompting, sampling, seed, force_answer)


def _known(figure: float | None) -> float | None:
    """`figure`, None if it involves tokens that were not sampled."""
    return None if figure is None or math.isnan(figure) else figure


def rollouts_frame(rows: Sequence[Rollout]) -> pl.DataFrame:
    columns = {name: [getattr(row, name) for row in rows] for name in ROLLOUT_SCHEMA}
    return pl.DataFrame(columns, schema=ROLLOUT_SCHEMA)
