"""Cost: minutes a step, wall hours and CPU-hours of the stages, over all parts of interrupted ones."""

from calibsft.metrics.metric import Column
from calibsft.reproduction.experiment import Cells, Experiment
from calibsft.reproduction.quantity import Quantity, by_seed
from calibsft.reproduction.study import Pipeline, Study

HOUR, MINUTE = 3600, 60
TRAINED: dict[str, Pipeline] = {
    "CalibSFT": ("calibsft",),
    "RLCR": ("rlcr",),
    "RLCR + CalibSFT": ("calibsft", "rlcr"),
}


def three_decimals(value: float) -> str:
    return f"{value:.3f}"


def measure(study: Study) -> Cells:
    cells: Cells = {}
    for row, pipeline in TRAINED.items():
        model = study.model(*pipeline)
        stages = [folder.name for folder in model.folders("training")]
        steps = (
            study.recipe.sft.steps if pipeline[-1] == "calibsft" else study.recipe.rl_of(pipeline[-1]).steps
        )
        cells[row] = _cost(study, stages)
        cells[row]["minutes_per_step"] = cells[row]["wall_hours"] * HOUR / MINUTE / steps
    sampled = study.model(*TRAINED["CalibSFT"]).models[0].rollouts
    assert sampled is not None, "CalibSFT samples"
    n = study.recipe.rollout.samples
    cells[f"Rollouts n={n}"] = _cost(study, [sampled[0]])
    return cells


def _cost(study: Study, stages: list[str]) -> dict[str, Quantity]:
    manifests = [study.cost(stage) for stage in stages]
    return {
        "wall_hours": by_seed(manifest["wall_seconds"] / HOUR for manifest in manifests),
        "device_hours": by_seed(manifest["cpu_seconds"] / HOUR for manifest in manifests),
    }


COST = Experiment(
    "cost",
    "Cost",
    "Table training_cost",
    tuple(TRAINED.values()),
    measure,
    (
        Column("minutes_per_step", "Minutes / step", "lower", three_decimals),
        Column("wall_hours", "Wall hours", "lower", three_decimals),
        Column("device_hours", "CPU-hours", "lower", three_decimals),
    ),
)
