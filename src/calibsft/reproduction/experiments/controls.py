"""Controls of our own: what the gains would look like if something else than CalibSFT's targets made them."""

from calibsft.reproduction.experiment import Cells, Experiment, by_split, split_columns
from calibsft.reproduction.study import Pipeline, Study

METRICS = ("pass@1", "auroc", "brier", "ece", "effective_support")
ROWS: dict[str, Pipeline] = {
    "CalibSFT": ("calibsft",),
    "Shuffled targets": ("calibsft@shuffled",),
    "Rejection sampling": ("calibsft@rejection",),
    "RLCR": ("rlcr",),
    "RLCR, whole compute": ("rlcr@whole-compute",),
    "RLCR from rejection sampling": ("calibsft@rejection", "rlcr"),
    "RLCR from shuffled targets": ("calibsft@shuffled", "rlcr"),
    "RLCR + CalibSFT": ("calibsft", "rlcr"),
    "RLCR, all groups": ("rlcr@all-groups",),
    "RLCR + CalibSFT, all groups": ("calibsft", "rlcr@all-groups"),
    "RLCR, mean-only": ("rlcr@mean-only",),
    "RLCR + CalibSFT, mean-only": ("calibsft", "rlcr@mean-only"),
}


def measure(study: Study) -> Cells:
    return by_split(study, ROWS, METRICS)


CONTROLS = Experiment(
    "controls",
    "Controls",
    "",
    tuple(ROWS.values()),
    measure,
    split_columns(*METRICS),
    "Shuffled targets: CalibSFT's labels are given to the responses at random. Rejection sampling: fine-tuning on right"
    " responses with the confidence that they state. Whole compute: RLCR samples as many responses as CalibSFT and RLCR"
    " together. All groups: no dynamic sampling. Mean-only: advantages are not divided by the group's deviation.",
)
