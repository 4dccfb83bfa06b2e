"""What the main evaluation says beyond its four metrics: correlation, further metrics, diversity of confidences."""

from calibsft.metrics.metric import Column
from calibsft.reproduction.arms import FIVE, add_means, pairs
from calibsft.reproduction.experiment import Cells, Experiment, by_split, split_columns
from calibsft.reproduction.study import SPLITS, Study

ROWS = pairs()
FINE = ("pce", "cap_brier", "e_aurc", "rce")
DIVERSE = ("support", "top1", "top3", "effective_support")
KINDS = {"pearson": "Pearson", "spearman": "Spearman"}


def correlate(study: Study) -> Cells:
    return {
        row: {
            f"{split}.{kind}": study.model(*pipeline).correlation(split, kind)
            for split in SPLITS
            for kind in KINDS
        }
        for row, pipeline in ROWS.items()
    }


def measure_fine(study: Study) -> Cells:
    return by_split(study, ROWS, FINE)


def measure_diversity(study: Study) -> Cells:
    cells = by_split(study, ROWS, DIVERSE)
    add_means(cells, FIVE, "five")
    return cells


CORRELATION = Experiment(
    "correlation",
    "Mean confidence and accuracy over benchmarks",
    "Table confidence_correlation",
    tuple(ROWS.values()),
    correlate,
    tuple(
        Column(f"{split}.{kind}", f"{split.upper()} {title}", "higher")
        for split in SPLITS
        for kind, title in KINDS.items()
    ),
)
FURTHER = Experiment(
    "metrics",
    "Additional metrics",
    "Table additional_metrics",
    tuple(ROWS.values()),
    measure_fine,
    split_columns(*FINE),
)
DIVERSITY = Experiment(
    "diversity",
    "Diversity of stated confidences",
    "Table diversity_metrics",
    tuple(ROWS.values()),
    measure_diversity,
    split_columns(*DIVERSE),
)
