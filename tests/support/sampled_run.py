"""A small recipe and a run of it up to its training set: real stages that replay responses, so no model is asked."""

import json
from pathlib import Path
from typing import Any

import yaml

from calibsft.pipeline import plan
from calibsft.recipe import load_recipe
from calibsft.stages.build import BuildStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.verify import VerifyStage

QUESTIONS = {f"{n}*7": str(7 * n) for n in range(12, 20)}
# Right or wrong, with its confidence; the samples of every question, in order.
SAMPLES = [(True, "0.90"), (False, "0.90"), (True, "0.20"), (False, "0.10")]
SETTINGS: dict[str, Any] = {
    "name": "small",
    "device": "cpu",
    "questions": {"source": "questions.jsonl"},
    "rollout": {"samples": len(SAMPLES), "max_new_tokens": 40},
    "targets": {"min_group": 1},
    "sft": {"steps": 3, "batch_size": 8, "micro_batch_size": 4, "max_tokens": 64, "learning_rate": 1e-3},
    "rl": {
        "steps": 2,
        "questions": 4,
        "group_size": 4,
        "micro_batch_size": 8,
        "max_prompt_tokens": 32,
        "max_new_tokens": 40,
    },
    "eval": {"benchmarks": ["multiply-1"]},
    "pipelines": [["calibsft"], ["calibsft", "rlcr"]],
}


def response(answer: str, confidence: str, reasoning: str = "7") -> str:
    return f"<think>{reasoning}</think><answer>{answer}</answer><confidence>{confidence}</confidence>"


def write_recipe(folder: Path, checkpoint: Path, **changes: Any) -> Path:
    """The recipe in `folder`, with its questions and the responses that its run replays."""
    rows = [{"question_id": q, "question": q, "gold": gold, "kind": "exact"} for q, gold in QUESTIONS.items()]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = [
        {"question": q, "response": response(gold if right else "1", confidence)}
        for q, gold in QUESTIONS.items()
        for right, confidence in SAMPLES
    ]
    (folder / "responses.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "model": str(checkpoint), **changes}))
    return path


def sample_run(recipe: Path, root: Path) -> None:
    """Perform the stages of the run before its first training."""
    replayed = [
        "engine.name=scripted",
        f"engine.responses={recipe.parent / 'responses.jsonl'}",
        "pipelines=[[calibsft]]",
    ]
    for planned in plan(load_recipe(str(recipe), replayed), root):
        if isinstance(planned.stage, RolloutStage | VerifyStage | BuildStage):
            planned.stage.perform(root / planned.name, planned.name)
