"""Responses under a token budget: finished rollouts, cut at the budget and made to end.

Nothing before the cut is sampled again, so all budgets have the same reasoning. A response that ended within the budget
stays as it is. Resumable by shard, like the rollouts.
"""

from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, shards, write_parquet
from calibsft.progress import Progress
from calibsft.rollouts.collect import Collector, rollouts_frame
from calibsft.schema import KEYS, Question

FORCED = "forced"


def cut_rollouts(
    collector: Collector, questions: list[Question], rollouts: Path, budget: int, folder: Path, label: str
) -> None:
    """Fill `folder` with the responses of `rollouts`, cut after `budget` tokens and made to end.

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
        for dataset, question, sample, ids in rows.filter(FORCED).select(*KEYS, "token_ids").iter_rows()
    ]
    ended = rollouts_frame(collector.end(cut)).with_columns(pl.lit(True).alias(FORCED))
    whole = rows.remove(FORCED).select(ended.columns)
    return rows.select(KEYS).join(pl.concat([whole, ended]), on=KEYS, how="left", maintain_order="left")
