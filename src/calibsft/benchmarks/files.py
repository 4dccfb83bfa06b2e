"""Questions from a user's own file: question_id, question, gold, and optionally kind (the grader)."""

from pathlib import Path

from calibsft.errors import InputError
from calibsft.schema import Question
from calibsft.tables import read_table, row_of, shown
from calibsft.verify import GRADERS

REQUIRED = ("question_id", "question", "gold")
DEFAULT_KIND = "math"


def load_questions(path: Path) -> list[Question]:
    """The questions of a CSV, JSONL or Parquet file; `gold` is a text or a list of aliases."""
    frame = read_table(path, REQUIRED)
    kinds = frame["kind"].to_list() if "kind" in frame.columns else [DEFAULT_KIND] * len(frame)
    for kind in set(kinds) - set(GRADERS):
        raise InputError(
            f"{path}, row {kinds.index(kind) + 1}: unknown grader {shown(kind)} in column 'kind';"
            f" write one of {', '.join(GRADERS)}"
        )
    repeated = frame["question_id"].is_duplicated()
    if repeated.any():
        row = row_of(repeated)
        raise InputError(
            f"{path}, row {row}: question_id {shown(frame['question_id'][row - 1])} is repeated; give every question its own"
        )
    golds = [
        tuple(map(str, gold)) if isinstance(gold, list) else str(gold) for gold in frame["gold"].to_list()
    ]
    rows = zip(frame["question_id"], frame["question"], golds, kinds, strict=True)
    return [Question(id_, str(text), gold, kind, path.name.split(".")[0]) for id_, text, gold, kind in rows]
