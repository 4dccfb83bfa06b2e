"""The names of files that several stages write or read."""

from pathlib import Path

MANIFEST = "manifest.json"
SETTINGS = "recipe.resolved.yaml"
# What trainings leave beside their model: the journal of steps, evaluations on the way; and of a start, its gradient.
JOURNAL, EVALS, GRADIENT = "metrics.jsonl", "evals.jsonl", "gradient.json"
# What was asked, beside the responses to it.
QUESTIONS = "questions.parquet"
# Training rows token by token, with what supervised each.
SUPERVISION = "supervision.parquet"
# Describes a checkpoint and is not part of it: an evaluation adds its figures later.
CARD = "README.md"
# What a judge said, in the order in which it did: not part of a stage's content.
JUDGE_CACHE = "judge.jsonl"
# What all parts of an interrupted stage took so far.
COST = "cost.json"


def shard_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def shards(folder: Path) -> list[Path]:
    """The data shards of a folder, in order."""
    return sorted(folder.glob("part-*.parquet"))


def is_hidden(path: Path) -> bool:
    """Whether a file is not data: a lock, or what file managers leave, such as `.DS_Store`."""
    return path.name.startswith(".")
