"""The confidence prior of three base models, and what Propositions 1 and 2 say of it before and after CalibSFT.

Measured on held-out questions of the training's kind, as all models are evaluated on these.
"""

from pathlib import Path

import polars as pl

from calibsft.evaluation import rows_without_text
from calibsft.metrics.metric import Column, fraction, percent
from calibsft.prior import Diagnosis, diagnose
from calibsft.report.figures.confidence import CONFIDENCE
from calibsft.reproduction.drawings import evaluated
from calibsft.reproduction.experiment import Cells, Drawing, Experiment
from calibsft.reproduction.quantity import Quantity, by_seed
from calibsft.reproduction.roles import HELD_OUT, roles
from calibsft.reproduction.scores import evaluation_scores, over_seeds
from calibsft.reproduction.study import Pipeline, Study, Trained

ROWS: dict[str, Pipeline] = {
    "Base": (),
    "Second base": ("base@second",),
    "Third base": ("base@third",),
    "CalibSFT": ("calibsft",),
}
BASES = {row: ROWS[row] for row in ("Base", "Second base", "Third base")}
CONCENTRATION = ("top3", "mean_confidence")


def measure(study: Study) -> Cells:
    benchmark = roles(study)[HELD_OUT]
    return {row: _measured(study.model(*pipeline), benchmark) for row, pipeline in ROWS.items()}


def _measured(model: Trained, benchmark: str) -> dict[str, Quantity]:
    folders = model.folders("evaluation")
    wrong = [evaluation_scores(folder, ~pl.col("correct")) for folder in folders]
    low = [
        evaluation_scores(folder, pl.col("confidence").fill_null(0) < 0.5)
        .rows.filter(dataset=benchmark)
        .height
        / model.scores[seed].rows.filter(dataset=benchmark).height
        for seed, folder in enumerate(folders)
    ]
    found = [_diagnosis(folder, benchmark) for folder in folders]
    return {
        "below_half": by_seed(low),
        **{metric: model.of(benchmark, metric) for metric in CONCENTRATION},
        **{f"incorrect.{metric}": over_seeds(wrong, benchmark, metric) for metric in CONCENTRATION},
        "gradient.norm": by_seed(one.gradient.norm for one in found),
        "gradient.norm_bound": by_seed(one.gradient.norm_bound for one in found),
        "floor": by_seed(one.floor.floor.less_noise for one in found if one.floor),
        "reach": by_seed(one.floor.reach for one in found if one.floor),
    }


def _diagnosis(folder: Path, benchmark: str) -> Diagnosis:
    rows = rows_without_text(folder).filter(dataset=benchmark).drop_nulls("correct")
    return diagnose(rows["confidence"], rows["correct"], rows["question_id"])


PRIOR = Experiment(
    "prior",
    "The prior of three base models",
    "Figure initial_confidence_prior, Propositions 1 and 2",
    tuple(ROWS.values()),
    measure,
    (
        Column("below_half", "Below 0.5", None, percent),
        Column("mean_confidence", "Mean confidence", None, fraction),
        Column("top3", "Top-3", None, percent),
        Column("incorrect.mean_confidence", "Mean when wrong", None, fraction),
        Column("incorrect.top3", "Top-3 when wrong", None, percent),
        Column("gradient.norm_bound", "Bound on the gradient", None, fraction),
        Column("floor", "Brier floor", None, fraction),
        Column("reach", "Reach of 8 samples", None, percent),
    ),
    "Measured on held-out questions like those of the training, at the evaluation's temperature.",
    (Drawing("prior", CONFIDENCE, lambda study: evaluated(study, BASES, HELD_OUT)),),
)
