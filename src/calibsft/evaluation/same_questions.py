"""The questions of a finished evaluation, to ask another model the same: for routing between the two."""

from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, read_manifest
from calibsft.errors import InputError
from calibsft.files.parquet import ROWS
from calibsft.schema import Question


def read_asked(path: Path) -> list[Question]:
    """The questions that rollouts keep beside their responses."""
    columns = ("question_id", "question", "gold", "grader", "dataset", "tolerance")
    rows = pl.read_parquet(path).select(columns).iter_rows()
    return [Question(id_, text, tuple(gold), *rest) for id_, text, gold, *rest in rows]


class SameQuestions:
    """The questions of the evaluation in `folder`, each asked once."""

    def __init__(self, folder: Path) -> None:
        asked = folder / "rollouts" / QUESTIONS
        if not asked.is_file() or not (folder / ROWS).is_file():
            raise InputError(
                f"{folder}: not an evaluation, so its questions cannot be asked again; give a folder of calibsft eval, or the"
                " strong model's responses with --strong"
            )
        self.questions = read_asked(asked)
        splits = pl.read_parquet(folder / ROWS, columns=["dataset", "split"]).unique()
        self.domains: dict[str, str] = dict(splits.iter_rows())
        self.versions: dict[str, int] = read_manifest(folder)["benchmarks"]

    def samples(self, question: Question) -> int:
        return 1
