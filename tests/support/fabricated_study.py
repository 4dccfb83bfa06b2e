"""A finished study without any model: folders of evaluations, trainings and training sets with made-up numbers.

`skill` says how well each model's confidence knows whether its answer is right, so that a test decides what comes out.
"""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibsft.evaluation import ROWS
from calibsft.pipeline import Model, plan_models
from calibsft.pipeline.chain import Chain
from calibsft.recipe import Recipe
from calibsft.reproduction.run import chosen, study_recipe
from calibsft.reproduction.study import Study
from calibsft.schema import SCHEMA_VERSION
from calibsft.table_schemas import LABELS

QUESTIONS, SAMPLES, STEPS = 12, 2, 10
Skill = Callable[[Chain], float]


def fabricate(
    root: Path, skill: Skill, names: tuple[str, ...] = (), seeds: tuple[int, ...] = (0, 1, 2)
) -> Study:
    """A study in `root` with every stage that some experiments read, or all of them."""
    recipe = study_recipe(chosen(names), seeds)
    for chain, model in plan_models(recipe, root).items():
        if chain.seed in (None, *seeds):
            _write_model(root, recipe, chain, model, skill)
    return Study(recipe, root, seeds)


def _write_model(root: Path, recipe: Recipe, chain: Chain, model: Model, skills: Skill) -> None:
    random = np.random.default_rng([chain.seed or 0, len(chain.steps)])
    skill, (_, variant) = skills(chain), chain.last
    rows = _rows(recipe.varied(variant) if variant else recipe, random, skill)
    folder = root / model.evaluation
    _stage(folder, "eval", lineage=list(chain.steps))
    rows.write_parquet(folder / ROWS)
    (folder / "metrics.json").write_text(json.dumps({"datasets": {}, "splits": {}}))
    _rollouts(folder / "rollouts", rows)
    for estimator in ("token-probability", "self-consistency"):
        (folder / "estimators").mkdir(exist_ok=True)
        rows.write_parquet(folder / "estimators" / f"{estimator}.parquet")
    for budget in recipe.varied("probed").eval.budgets:
        (folder / "budgets" / str(budget)).mkdir(parents=True, exist_ok=True)
        rows.write_parquet(folder / "budgets" / str(budget) / ROWS)
    if model.training is not None:
        _stage(root / model.training, "rl", lineage=list(chain.steps), method="rlcr", cpu_seconds=7.0)
        _journal(root / model.training, random, skill)
    for name in model.rollouts or ():
        _stage(root / name, "rollout", cpu_seconds=5.0)
        sampled = _rows(recipe, random, skills(chain.first))
        sampled.filter(dataset=sampled["dataset"][0]).write_parquet(root / name / "part-00000.parquet")
    if model.data is not None and not (root / model.data / "labels.parquet").exists():
        _training_set(root / model.data)


def _stage(folder: Path, kind: str, **facts: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.resolved.yaml").write_text(
        f"schema_version: {SCHEMA_VERSION}\nstage: {kind}\nsettings: {{}}\n"
    )
    manifest = {
        "schema_version": SCHEMA_VERSION, "stage": kind, "content_hash": "", "inputs": {}, "files": {}, "bytes": {},
        "wall_seconds": 9.0, "resumed": False, **facts,
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _rows(recipe: Recipe, random: np.random.Generator, skill: float) -> pl.DataFrame:
    """Responses whose confidence is right, as far as the skill goes, and 0.9 otherwise."""
    parts = []
    for place, name in enumerate(recipe.eval.benchmarks):
        accuracy = 0.2 + 0.6 * (place % 8) / 7
        count = QUESTIONS * SAMPLES
        correct = random.random(count) < accuracy
        knows = random.random(count) < skill
        stated = np.where(knows, np.where(correct, 0.95, 0.05), 0.9)
        parts.append(
            pl.DataFrame(
                {
                    "dataset": name,
                    "question_id": [f"q{i // SAMPLES}" for i in range(count)],
                    "sample": pl.Series([i % SAMPLES for i in range(count)], dtype=pl.Int32),
                    "split": "id" if place < 8 else "ood",
                    "confidence": stated,
                    "correct": correct,
                    "well_formed": True,
                    "reason": "ok",
                }
            )
        )
    return pl.concat(parts)


def _rollouts(folder: Path, rows: pl.DataFrame) -> None:
    folder.mkdir(exist_ok=True)
    keys = rows.select("dataset", "question_id", "sample")
    tokens = pl.Series("token_ids", [[1] * 20] * len(rows))
    keys.with_columns(tokens).write_parquet(folder / "part-00000.parquet")


def _journal(folder: Path, random: np.random.Generator, skill: float) -> None:
    lines = []
    for step in range(1, STEPS + 1):
        values = ("pass@1", "auroc", "brier", "ece", "effective_support", "wrong_below_half")
        figures = {name: float(0.5 + 0.1 * random.standard_normal()) for name in values}
        spread = 1 + 5 * skill + 0.1 * float(random.standard_normal())
        lines.append({"step": step, **figures, "distinct_values": spread, "confidence_entropy": spread / 3})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _training_set(folder: Path) -> None:
    """One right and one wrong response at each success rate of ten, with CalibSFT's labels."""
    rows: list[dict[str, Any]] = []
    for k in range(1, 10):
        for correct in (True, False):
            label = Fraction(k, 20) + Fraction(int(correct), 2)
            rows.append(
                {
                    "dataset": "d", "question_id": f"q{k}", "sample": int(correct), "ending": "finished", "correct": correct,
                    "reason": "ok", "successes": k, "rollouts": 10, "label_numerator": label.numerator,
                    "label_denominator": label.denominator, "drawn": True,
                }
            )  # fmt: skip
    _stage(folder, "build", lineage=[])
    names = dict(zip(("label_numerator", "label_denominator"), list(LABELS)[-3:-1], strict=True))
    pl.DataFrame(rows).rename({a: b for a, b in names.items() if a != b}).write_parquet(
        folder / "labels.parquet"
    )
    counts = {f"{Fraction(k, 20) + Fraction(z, 2)}": 1 for k in range(1, 10) for z in (0, 1)}
    summary = {
        "target": "calibsft", "format": "probability", "from_format": "probability", "responses": 18, "questions": 9,
        "endings": {}, "filtered": {}, "before": counts, "after": counts, "group_size": 1, "dropped_groups": {},
        "rows": 18, "rows_questions": 9,
    }  # fmt: skip
    (folder / "targets.json").write_text(json.dumps(summary))
