"""RLCR looked at more closely: under token budgets, and with other estimators of confidence."""

import numpy as np

from calibsft.estimators import ESTIMATORS
from calibsft.evaluation import BUDGETS as FOLDER
from calibsft.evaluation import ROWS as TABLE
from calibsft.metrics.metric import Column, fraction
from calibsft.report.figures.budgets import BUDGETS as CURVES
from calibsft.reproduction.arms import WITH
from calibsft.reproduction.drawings import evaluated
from calibsft.reproduction.experiment import Cells, Drawing, Experiment, split_columns
from calibsft.reproduction.quantity import Quantity, count_of, exact
from calibsft.reproduction.roles import roles
from calibsft.reproduction.scores import Scores, over_seeds, split_mean
from calibsft.reproduction.study import SPLITS, Pipeline, Study, Trained

ARMS: dict[str, Pipeline] = {"": ("rlcr@probed",), WITH: ("calibsft", "rlcr@probed")}
METRICS = ("pass@1", "auroc", "brier", "ece")
ROLE = "middle-id"
NAMES = {
    "Verbalized": "verbalized",
    "Token probability": "token-probability",
    "Self-consistency": "self-consistency",
}


def estimate(study: Study) -> Cells:
    cells: Cells = {}
    for title, estimator in NAMES.items():
        for end, pipeline in ARMS.items():
            scores = _estimated(study.model(*pipeline), estimator)
            cells[title + end] = {
                f"{split}.{metric}": split_mean(scores, split, metric)
                for split in SPLITS
                for metric in METRICS
            }
    return cells


def _estimated(model: Trained, estimator: str) -> list[Scores]:
    if estimator == next(iter(ESTIMATORS)):  # the stated confidences are those of the evaluation itself
        return model.scores
    return [Scores(folder / "estimators" / f"{estimator}.parquet") for folder in model.folders("evaluation")]


def limit(study: Study) -> Cells:
    benchmark = roles(study)[ROLE]
    budgets = sorted(study.recipe.varied("probed").eval.budgets)
    cells: Cells = {
        f"RLCR{end}": {
            f"{metric}@{budget}": over_seeds(_limited(study.model(*pipeline), budget), benchmark, metric)
            for metric in ("pass@1", "ece")
            for budget in budgets
        }
        for end, pipeline in ARMS.items()
    }
    before, after = (cells[f"RLCR{end}"] for end in ARMS)
    for row in (before, after):
        row[f"{ROLE}.ece@long-budget"] = row[f"ece@{budgets[-1]}"]
    losses = [before[f"pass@1@{budget}"] - after[f"pass@1@{budget}"] for budget in budgets]
    cells["Budgets"] = {
        "ece.lower": count_of([after[f"ece@{budget}"] < before[f"ece@{budget}"] for budget in budgets]),
        "budgets": exact(len(budgets)),
        "pass@1.loss": _largest(losses),
    }
    return cells


def _limited(model: Trained, budget: int) -> list[Scores]:
    return [Scores(folder / FOLDER / str(budget) / TABLE) for folder in model.folders("evaluation")]


def _largest(parts: list[Quantity]) -> Quantity:
    found: Quantity = np.max(np.stack(parts), axis=0)
    return found


ESTIMATORS_EXPERIMENT = Experiment(
    "estimators",
    "Other estimators of confidence",
    "Table confidence_estimators",
    tuple(ARMS.values()),
    estimate,
    split_columns(*METRICS),
)
BUDGETS = Experiment(
    "budgets",
    "Token budgets",
    "Figure reasoning_budget",
    ((), *ARMS.values()),
    limit,
    (Column(f"{ROLE}.ece@long-budget", f"{ROLE} ECE, longest budget", "lower", fraction),),
    figures=(
        Drawing(
            "budgets",
            CURVES,
            lambda study: evaluated(study, {f"RLCR{end}": arm for end, arm in ARMS.items()}, ROLE),
        ),
    ),
)
