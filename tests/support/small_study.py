"""The study with tiny steps: every stage of every experiment is real, and too short to learn much.

Its training questions are remainders, which a small model begins to know within seconds, so that all success rates occur.
"""

import json
from pathlib import Path
from random import Random

import yaml

SETTINGS = {
    "extends": "study",
    "base": {
        "steps": 200, "batch_size": 64, "learning_rate": 5e-3, "hidden_size": 64, "intermediate_size": 128, "heads": 2,
        "kv_heads": 1, "head_dim": 32,
    },
    "rollout": {"samples": 10, "shard_questions": 200},
    "sft": {"steps": 2, "batch_size": 16, "micro_batch_size": 16, "warmup_steps": 0},
    "prior": {"contexts": 2},
    "rl": {"steps": 2, "questions": 2, "group_size": 4, "micro_batch_size": 8, "max_batches": 30},
    "rl_methods": {"redoubt": {"steps": 2}},
    "training_seeds": [0],
    "eval": {"limit": 4, "samples": 2},
    "variants": {
        "strong": {"base": {"steps": 220}},
        "whole-compute": {"rl_methods": {"rlcr": {"steps": 3}}},
    },
}  # fmt: skip


def write_small_study(folder: Path) -> Path:
    """Write the recipe of a small study and its questions; returns the recipe's path."""
    random, rows = Random(0), {}
    while len(rows) < 150:
        a, divisor = random.randrange(100, 400), random.randrange(2, 8)
        rows[f"{a}%{divisor}"] = str(a % divisor)
    questions = folder / "questions.jsonl"
    lines = (
        {"question_id": text, "question": text, "gold": gold, "kind": "exact"} for text, gold in rows.items()
    )
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = folder / "small-study.yaml"
    recipe.write_text(yaml.safe_dump({**SETTINGS, "questions": {"source": str(questions), "limit": None}}))
    return recipe
