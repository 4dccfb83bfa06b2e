"""The names of files that several stages write or read."""

from pathlib import Path

MANIFEST = "manifest.json"
SETTINGS = "recipe.resolved.yaml"
# Files of a training: the journal of steps, evaluations during training, the gradient at its start.
JOURNAL, EVALS, GRADIENT = "metrics.jsonl", "evals.jsonl", "gradient.json"
# The questions, beside the responses to them.
QUESTIONS = "questions.parquet"
# Training rows token by token, with the weight of each token.
SUPERVISION = "supervision.parquet"
# Describes a checkpoint and is not part of it: an evaluation adds its table later.
CARD = "README.md"
# The replies of a judge in the order of their arrival, so not part of a stage's content.
JUDGE_CACHE = "judge.jsonl"
# The time and memory of all parts of an interrupted stage so far.
COST = "cost.json"
# The tokens that servers counted: the same responses may have cost more when a part was repeated.
USAGE = "usage.json"


def shard_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def shards(folder: Path) -> list[Path]:
    """The data shards of a folder, in order."""
    return sorted(folder.glob("part-*.parquet"))


def is_hidden(path: Path) -> bool:
    """Whether a file is not data: a lock, or a file of a file manager such as `.DS_Store`."""
    return path.name.startswith(".")
