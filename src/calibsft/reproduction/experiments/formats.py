"""Confidence formats: RLCR from the base and from CalibSFT in four formats, on the same rollouts re-expressed."""

from calibsft.reproduction.arms import WITH
from calibsft.reproduction.experiment import Cells, Experiment, by_split, split_columns
from calibsft.reproduction.study import SPLITS, Pipeline, Study

METRICS = ("ece", "auroc")
# The paper's formats, and the variants that write so; the last is the study's own.
FORMATS = {
    "Linguistic": "@linguistic",
    "Integer": "@integer",
    "Probability 0.05": "@probability-0.05",
    "Probability 0.01": "",
}
ROWS: dict[str, Pipeline] = {}
for _name, _variant in FORMATS.items():
    ROWS |= {_name: (f"rlcr{_variant}",), _name + WITH: ("calibsft", f"rlcr{_variant}")}


def measure(study: Study) -> Cells:
    cells = by_split(study, ROWS, METRICS)
    for name in FORMATS:
        for column in (f"{split}.ece" for split in SPLITS):
            cells[name + WITH][f"{column}.gain"] = cells[name][column] - cells[name + WITH][column]
    return cells


FORMATS_EXPERIMENT = Experiment(
    "formats",
    "Confidence formats",
    "Table format_calibsft",
    tuple(ROWS.values()),
    measure,
    split_columns(*METRICS),
    "RLCR from the base and from CalibSFT. Training sets hold the same responses, with confidences rewritten in each format.",
)
