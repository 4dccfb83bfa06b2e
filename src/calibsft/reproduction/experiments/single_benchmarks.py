"""Benchmarks that the paper looks at alone: alignment with difficulty, distributions, reliability."""

from functools import partial

import numpy as np

from calibsft.metrics.metric import Column, fraction, percent
from calibsft.report.figures.confidence import CONFIDENCE
from calibsft.report.figures.correlation import CORRELATION
from calibsft.report.figures.reliability import RELIABILITY as DIAGRAM
from calibsft.reproduction.arms import pairs
from calibsft.reproduction.drawings import evaluated
from calibsft.reproduction.experiment import Cells, Drawing, Experiment, metric_column
from calibsft.reproduction.quantity import Quantity
from calibsft.reproduction.roles import roles
from calibsft.reproduction.study import Study, Trained

THREE = ("RLCR", "CoCA", "DCPO")
HARD, EASY = "hard-id", "easy-id"
RELIABLE = ("easy-id", "middle-id", "hard-id", "middle-ood", "easy-ood", "hard-ood")


def overconfidence(model: Trained, benchmark: str) -> Quantity:
    """Mean confidence less Pass@1."""
    return model.of(benchmark, "mean_confidence") - model.of(benchmark, "pass@1")


def align(study: Study) -> Cells:
    names = roles(study)
    return {
        row: {
            **{
                f"{role}.{metric}": model.of(names[role], metric)
                for role in (EASY, HARD)
                for metric in ("pass@1", "mean_confidence")
            },
            **{
                f"drop.{metric}": model.of(names[EASY], metric) - model.of(names[HARD], metric)
                for metric in ("pass@1", "mean_confidence")
            },
        }
        for row, model in ((row, study.model(*pipeline)) for row, pipeline in pairs(("RLCR",)).items())
    }


def distribute(study: Study) -> Cells:
    hard = roles(study)[HARD]
    cells: Cells = {}
    for row, pipeline in pairs(THREE).items():
        model = study.model(*pipeline)
        cells[row] = {
            f"{HARD}.{metric}": model.of(hard, metric)
            for metric in ("pass@1", "auroc", "ece", "top1", "top3", "mean_confidence")
        }
        cells[row][f"{HARD}.gap"] = np.abs(overconfidence(model, hard))
    return cells


def rely(study: Study) -> Cells:
    names = roles(study)
    cells: Cells = {}
    for row, pipeline in pairs(("RLCR",)).items():
        model = study.model(*pipeline)
        cells[row] = {
            f"{role}.{metric}": model.of(names[role], metric)
            for role in RELIABLE
            for metric in ("ece", "mean_confidence", "top3")
        }
        for role in RELIABLE:
            difference = overconfidence(model, names[role])
            cells[row] |= {f"{role}.overconfidence": difference, f"{role}.gap": np.abs(difference)}
    return cells


ALIGNMENT = Experiment(
    "alignment",
    "Pass@1 against mean confidence",
    "Figure rlcr_test_calibration",
    ((), *pairs(("RLCR",)).values()),
    align,
    tuple(
        Column(f"{part}.{metric}", f"{part} {title}", None, fraction)
        for part in (EASY, HARD, "drop")
        for metric, title in (("pass@1", "Pass@1"), ("mean_confidence", "mean confidence"))
    ),
    figures=(Drawing("alignment", CORRELATION, lambda study: evaluated(study, pairs(("RLCR",)), "id")),),
)
DISTRIBUTIONS = Experiment(
    "distributions",
    "Confidences on a hard benchmark",
    "Figure confidence_distribution",
    ((), *pairs(THREE).values()),
    distribute,
    (
        *(metric_column(f"{HARD}.{metric}", HARD, metric) for metric in ("pass@1", "auroc", "ece")),
        Column(f"{HARD}.gap", f"{HARD} |confidence − Pass@1|", "lower", fraction),
        *(
            Column(f"{HARD}.{metric}", f"{HARD} {title}", "lower", percent)
            for metric, title in (("top1", "Top-1"), ("top3", "Top-3"))
        ),
    ),
    figures=(Drawing("distributions", CONFIDENCE, lambda study: evaluated(study, pairs(THREE), HARD)),),
)
RELIABILITY = Experiment(
    "reliability",
    "Reliability by benchmark",
    "Figures reliability_id, reliability_ood",
    ((), *pairs(("RLCR",)).values()),
    rely,
    tuple(
        column
        for role in RELIABLE
        for column in (
            metric_column(f"{role}.ece", role, "ece"),
            Column(f"{role}.overconfidence", f"{role} over-confidence", None, fraction),
        )
    ),
    figures=tuple(
        Drawing(f"reliability-{role}", DIAGRAM, partial(evaluated, rows=pairs(("RLCR",)), part=role))
        for role in RELIABLE
    ),
)
