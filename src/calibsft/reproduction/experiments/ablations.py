"""Ablations of CalibSFT: balancing, supervision, and the number of rollouts."""

from calibsft.metrics.metric import Column, one_decimal, percent
from calibsft.report.figures.confidence import CONFIDENCE
from calibsft.report.figures.targets import TARGETS
from calibsft.reproduction.drawings import evaluated, training_sets
from calibsft.reproduction.experiment import (
    Cells,
    Drawing,
    Experiment,
    by_split,
    metric_column,
    split_columns,
)
from calibsft.reproduction.labels import distinct_labels, extreme_share, group_sizes, margin
from calibsft.reproduction.quantity import exact
from calibsft.reproduction.roles import HELD_OUT, roles
from calibsft.reproduction.study import Pipeline, Study

MAIN = ("pass@1", "auroc", "brier", "ece")
DIVERSE = ("support", "effective_support", "top1", "top3")
BALANCE: dict[str, Pipeline] = {"Balanced": ("calibsft",), "Unbalanced": ("calibsft@unbalanced",)}
AFTER_RL: dict[str, Pipeline] = {
    "RLCR from Balanced": ("calibsft", "rlcr"),
    "RLCR from Unbalanced": ("calibsft@unbalanced", "rlcr"),
}
SUPERVISION: dict[str, Pipeline] = {
    "Confidence-only": ("calibsft@confidence-only",),
    "Full-CE": ("calibsft@full-ce",),
    "Full-Balanced": ("calibsft@full-balanced",),
    "Correct-only": ("calibsft@correct-only",),
    "CalibSFT": ("calibsft",),
}
SAMPLES: dict[str, Pipeline] = {"Base": (), "n=10": ("calibsft@ten-rollouts",), "n=50": ("calibsft",)}


def balance(study: Study) -> Cells:
    cells = by_split(study, {**BALANCE, **AFTER_RL}, (*MAIN, *DIVERSE))
    held_out = roles(study)[HELD_OUT]
    for row, pipeline in BALANCE.items():
        cells[row][f"{HELD_OUT}.extreme_share"] = study.model(*pipeline).of(held_out, "extreme_share")
    data = study.model(*BALANCE["Balanced"]).folders("data")[0]
    sizes = group_sizes(data)
    cells["Balanced"] |= {"targets.fewest": exact(sizes[0]), "targets.most": exact(sizes[-1])}
    cells["Raw targets"] = {"exactly_0_or_1": exact(extreme_share(data))}
    return cells


def supervise(study: Study) -> Cells:
    return by_split(study, SUPERVISION, (*MAIN, "support", "effective_support"))


def sample(study: Study) -> Cells:
    cells = by_split(study, SAMPLES, MAIN)
    for row, pipeline in list(SAMPLES.items())[1:]:
        data = study.model(*pipeline).folders("data")[0]
        cells[row] |= {
            "targets.distinct": exact(distinct_labels(data)),
            "targets.margin": exact(margin(data)),
        }
    return cells


BALANCE_EXPERIMENT = Experiment(
    "balance",
    "Target-balanced sampling",
    "Table balance_ablation, Figure balance_ablation_confidence",
    ((), *BALANCE.values(), *AFTER_RL.values()),
    balance,
    (
        *split_columns(*MAIN, *DIVERSE, splits=("id",)),
        metric_column(f"{HELD_OUT}.extreme_share", HELD_OUT, "extreme_share"),
        Column("exactly_0_or_1", "Raw targets of 0 or 1", None, percent),
        *split_columns(*MAIN, splits=("ood",)),
    ),
    figures=(
        Drawing("balance", CONFIDENCE, lambda study: evaluated(study, BALANCE, HELD_OUT)),
        Drawing("balance-targets", TARGETS, lambda study: training_sets(study, BALANCE)),
    ),
)
SUPERVISION_EXPERIMENT = Experiment(
    "supervision",
    "What is supervised",
    "Table supervision_ablation",
    tuple(SUPERVISION.values()),
    supervise,
    split_columns(*MAIN),
)
SAMPLES_EXPERIMENT = Experiment(
    "samples",
    "Fifty rollouts against ten",
    "Appendix, cost analysis and Proposition 3",
    tuple(SAMPLES.values()),
    sample,
    (*split_columns(*MAIN), Column("targets.distinct", "Distinct targets", None, one_decimal)),
    "Ten rollouts are the first ten of the fifty.",
)
