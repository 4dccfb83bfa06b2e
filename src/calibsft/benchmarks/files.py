"""Questions from a user's own file: question_id, question, gold, and optionally kind (the grader) and tolerance."""

from pathlib import Path

from calibsft.files.cells import refuse_where
from calibsft.files.reading import read_table
from calibsft.schema import Question
from calibsft.verify.files import gold_column, kind_column, tolerance_column

REQUIRED = ("question_id", "question", "gold")


def load_questions(path: Path) -> list[Question]:
    """The questions of a CSV, JSONL or Parquet file; `gold` is a text or a list of aliases."""
    frame = read_table(path, REQUIRED)
    ids = frame["question_id"]
    refuse_where(path, ids.is_duplicated(), ids, "{column} {cell} is repeated; give every question its own")
    rows = zip(
        ids,
        frame["question"],
        (tuple(golds) for golds in gold_column(path, frame)),
        kind_column(path, frame),
        tolerance_column(path, frame),
        strict=True,
    )
    dataset = dataset_name(path)
    return [
        Question(id_, str(text), golds if len(golds) > 1 else golds[0], kind, dataset, tolerance)
        for id_, text, golds, kind, tolerance in rows
    ]


def dataset_name(path: Path) -> str:
    """What results call the questions of a file."""
    return path.name.split(".")[0]
