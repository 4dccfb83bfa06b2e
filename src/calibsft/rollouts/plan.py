"""What a folder of rollouts will hold: which questions are in which shard, and how many samples each has.

The plan comes from the questions alone, so any number of runs and machines can fill parts of it. Does not sample.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import polars as pl

from calibsft.artifacts import QUESTIONS, shard_name, shards, write_parquet
from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.rollouts.partial import Key
from calibsft.schema import KEYS, Question
from calibsft.table_schemas import Columns


@dataclass(frozen=True, slots=True)
class Plan:
    """The questions of each shard, by the name of its file."""

    parts: dict[str, Sequence[Question]]
    samples: Callable[[Question], int]

    def share(self, part: str | None) -> Self:
        """The shards of one part of all, "2/8" for the second of eight; None for all."""
        if part is None:
            return self
        number, of = map(int, part.split("/"))
        return replace(self, parts=dict(list(self.parts.items())[number - 1 :: of]))

    def keys(self, name: str) -> list[Key]:
        """The keys of a shard's rows, in order."""
        return [(q.dataset, q.id, i) for q in self.parts[name] for i in range(self.samples(q))]

    def missing(self, folder: Path, columns: Columns) -> list[str]:
        """The shards that are not complete in `folder`. Shards outside the plan are refused: the next stage would read them."""
        for path in shards(folder):
            if path.name not in self.parts:
                raise InputError(
                    f"{path}: this shard does not belong to the planned work; move it out of the folder"
                )
        return [name for name in self.parts if not self._is_complete(folder / name, columns)]

    def _is_complete(self, path: Path, columns: Columns) -> bool:
        """Whether the shard exists and is complete; a damaged one is reported and sampled again."""
        if not path.is_file():
            return False
        try:
            right = pl.read_parquet_schema(path) == pl.Schema(columns)
            found = set(pl.read_parquet(path, columns=list(KEYS)).iter_rows()) if right else set()
        except (pl.exceptions.PolarsError, OSError):
            found = set()
        if found == set(self.keys(path.name)):
            return True
        warn(f"{path} is damaged or does not hold its planned rows: it is sampled again")
        return False


def plan_of(questions: Sequence[Question], samples: Callable[[Question], int], shard_questions: int) -> Plan:
    """The plan with `shard_questions` questions in each shard; refuses repeated ids, since rows are identified by them."""
    for (dataset, question_id), count in Counter((q.dataset, q.id) for q in questions).items():
        if count > 1:
            raise InputError(
                f"question id '{question_id}' occurs twice in {dataset}; give every question its own id"
            )
    starts = range(0, len(questions), shard_questions)
    parts = {shard_name(i): questions[start : start + shard_questions] for i, start in enumerate(starts)}
    return Plan(parts, samples)


def keep_questions(folder: Path, questions: Sequence[Question]) -> None:
    """Write the questions; refuse a folder whose responses belong to other questions."""
    path, table = folder / QUESTIONS, questions_frame(questions)
    if path.is_file() and any(folder.glob("part-*")) and not pl.read_parquet(path).equals(table):
        raise InputError(
            f"{folder}: the questions have changed since its responses were sampled; choose another folder with --out"
        )
    write_parquet(path, table)


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
