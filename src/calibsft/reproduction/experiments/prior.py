"""The confidence prior of three base models, and what Propositions 1 and 2 say of it before and after CalibSFT.

Measured as RL samples: many responses to each question, at a temperature of 1. The base models are seen on the training
questions, of which their rollouts are at hand; the model after CalibSFT on held-out questions of the same kinds, as it has
been trained on the others.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from calibsft.artifacts import shards
from calibsft.evaluation import ROWS
from calibsft.metrics.metric import Column, fraction, percent
from calibsft.prior import Diagnosis, diagnose
from calibsft.report.figures.confidence import CONFIDENCE
from calibsft.report.summary import ModelResult, RunSummary
from calibsft.reproduction.experiment import Cells, Drawing, Experiment
from calibsft.reproduction.quantity import Quantity, by_seed
from calibsft.reproduction.scores import Scores, drawn_mean, over_seeds
from calibsft.reproduction.study import Pipeline, Study
from calibsft.schema import QUESTION_KEYS

AFTER: Pipeline = ("calibsft@sampled",)
# Each base with a pipeline that samples it.
BASES: dict[str, Pipeline] = {
    "Base": ("calibsft",),
    "Second base": ("base@second", "calibsft"),
    "Third base": ("base@third", "calibsft"),
}
CONCENTRATION = ("top3", "mean_confidence")
# By the start of the column's name: which responses it is about.
PARTS = {"": pl.lit(True), "correct.": pl.col("correct"), "incorrect.": ~pl.col("correct")}


def measure(study: Study) -> Cells:
    after = [[folder / ROWS] for folder in study.model(*AFTER).folders("evaluation")]
    sampled = {**{row: [_verdicts(study, row)] for row in BASES}, "CalibSFT": after}
    return {row: _measured(files) for row, files in sampled.items()}


def _verdicts(study: Study, row: str) -> list[Path]:
    found = study.model(*BASES[row]).models[0].rollouts
    assert found is not None, "CalibSFT samples the base"
    return shards(study.root / found[1])


def _measured(seeds: Sequence[list[Path]]) -> dict[str, Quantity]:
    """The responses of each training seed; a base model is one seed."""
    found: dict[str, Quantity] = {}
    for start, part in PARTS.items():
        scores = [Scores(files, part) for files in seeds]
        (name,) = scores[0].rows["dataset"].unique()
        found |= {f"{start}{metric}": over_seeds(scores, name, metric) for metric in CONCENTRATION}
    rows = [Scores(files).rows for files in seeds]
    diagnoses = [_diagnosis(one) for one in rows]
    return found | {
        "below_half": np.stack([drawn_mean(one, pl.col("confidence").fill_null(0) < 0.5) for one in rows]),
        "gradient.norm": by_seed(one.gradient.norm for one in diagnoses),
        "gradient.norm_bound": by_seed(one.gradient.norm_bound for one in diagnoses),
        "floor": by_seed(one.floor.floor.less_noise for one in diagnoses if one.floor),
        "reach": by_seed(one.floor.reach for one in diagnoses if one.floor),
    }


def _diagnosis(rows: pl.DataFrame) -> Diagnosis:
    question = pl.concat_str(QUESTION_KEYS, separator=" ")
    return diagnose(rows["confidence"], rows["correct"], rows.select(question).to_series())


def _shown(study: Study) -> RunSummary:
    models = [ModelResult(row, pl.read_parquet(_verdicts(study, row))) for row in BASES]
    return RunSummary("study", tuple(models), benchmark="training questions")


PRIOR = Experiment(
    "prior",
    "The prior of three base models",
    "Figure initial_confidence_prior, Propositions 1 and 2",
    (*BASES.values(), AFTER),
    measure,
    (
        Column("below_half", "Below 0.5", None, percent),
        Column("mean_confidence", "Mean confidence", None, fraction),
        Column("top3", "Top-3", None, percent),
        Column("incorrect.mean_confidence", "Mean when wrong", None, fraction),
        Column("incorrect.top3", "Top-3 when wrong", None, percent),
        Column("gradient.norm", "Size of the gradient", None, fraction),
        Column("gradient.norm_bound", "Bound on the gradient", None, fraction),
        Column("floor", "Brier floor", None, fraction),
        Column("reach", "Reach of 8 samples", None, percent),
    ),
    "Measured on 50 responses to each question at a temperature of 1, as RL samples: the bases on training questions, CalibSFT"
    " on held-out ones. That the bases' confidences are few and high is built into this world, so those claims check the"
    " world; they are no findings.",
    (Drawing("prior", CONFIDENCE, _shown),),
)
