"""What a model would have said with fewer tokens: finished rollouts, cut at a budget and made to end.

Nothing is sampled again before the cut, so all budgets see the same reasoning, and a response that ended within
the budget is taken as it is. Resumable by shard, like the rollouts themselves.
"""

from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, shards, write_parquet
from calibsft.progress import Progress
from calibsft.rollouts.collect import ROLLOUT_SCHEMA, Collector
from calibsft.schema import Question

FORCED = "forced"


def cut_rollouts(
    collector: Collector, questions: list[Question], rollouts: Path, budget: int, folder: Path, label: str
) -> None:
    """Fill `folder` with the rollouts of `rollouts` as they end when cut after `budget` tokens.

    The rows have one more column: `forced`, whether the response was cut.
    """
    write_parquet(folder / QUESTIONS, pl.read_parquet(rollouts / QUESTIONS))
    found = shards(rollouts)
    missing = [shard for shard in found if not (folder / shard.name).is_file()]
    by_key = {(question.dataset, question.id): question for question in questions}
    with Progress(label, len(found), "shards", len(found) - len(missing)) as progress:
        for shard in missing:
            rows = pl.read_parquet(shard)
            write_parquet(folder / shard.name, _cut_shard(collector, by_key, rows, budget))
            progress.advance(1)


def _cut_shard(
    collector: Collector, questions: dict[tuple[str, str], Question], rows: pl.DataFrame, budget: int
) -> pl.DataFrame:
    over = pl.col("finished").not_() | (pl.col("token_ids").list.len() > budget)
    rows = rows.with_columns(over.alias(FORCED))
    cut = [
        (questions[dataset, question], sample, tuple(ids[:budget]))
        for dataset, question, sample, ids in rows.filter(FORCED)
        .select("dataset", "question_id", "sample", "token_ids")
        .iter_rows()
    ]
    ended = iter(collector.end(cut))
    replaced = [next(ended) if forced else None for forced in rows[FORCED]]
    columns = {
        name: [
            old if new is None else getattr(new, name)
            for old, new in zip(rows[name].to_list(), replaced, strict=True)
        ]
        for name in ROLLOUT_SCHEMA
    }
    return pl.DataFrame(columns, schema=ROLLOUT_SCHEMA).with_columns(rows[FORCED])
