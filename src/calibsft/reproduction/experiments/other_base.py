"""Another base model: RLCR on a base of another architecture, on six benchmarks as in the paper."""

from calibsft.reproduction.arms import WITH
from calibsft.reproduction.experiment import Cells, Experiment, metric_column
from calibsft.reproduction.quantity import mean_of
from calibsft.reproduction.roles import roles
from calibsft.reproduction.study import Pipeline, Study

BASE = "base@second"
METRICS = ("ece", "auroc")
ROLES = ("easy-id", "upper-middle-id", "hard-id", "high-accuracy-ood", "upper-middle-ood", "hard-ood")
ROWS: dict[str, Pipeline] = {"RLCR": (BASE, "rlcr"), "RLCR" + WITH: (BASE, "calibsft", "rlcr")}


def measure(study: Study) -> Cells:
    names = roles(study)
    cells: Cells = {}
    for row, pipeline in ROWS.items():
        model = study.model(*pipeline)
        cells[row] = {
            f"{role}.{metric}": model.of(names[role], metric) for role in ROLES for metric in METRICS
        }
        for metric in METRICS:
            cells[row][f"average.{metric}"] = mean_of([cells[row][f"{role}.{metric}"] for role in ROLES])
    return cells


OTHER_BASE = Experiment(
    "other-base",
    "Another base model",
    "Table gemma_calibsft",
    ((), *ROWS.values()),
    measure,
    tuple(
        metric_column(f"{part}.{metric}", part, metric) for part in ("average", *ROLES) for metric in METRICS
    ),
)
