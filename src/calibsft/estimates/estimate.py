"""The estimate of a whole run: counts, disk and GPU-hours of every stage, and what it puts on the GPUs."""

from dataclasses import dataclass
from pathlib import Path

from calibsft.estimates import paper
from calibsft.estimates.counts import Counts, balanced_rows, counts_of
from calibsft.estimates.disk import Disk, disk_of
from calibsft.estimates.gpus import Load, gpu_memory, loads_of
from calibsft.estimates.hours import gpu_hours
from calibsft.estimates.shapes import Shape, shape_of
from calibsft.pipeline import Planned, plan
from calibsft.recipe import Recipe


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """One stage.

    Attributes
    ----------
    rows
        Of the training set that it makes, if as many responses have its rarest target as in the paper; 0 if it makes none,
        or one of other responses.
    hours
        GPU-hours; 0 if it needs no GPU, None if they are not known.
    loads
        What it puts on the GPUs; None if that is not known.
    """

    name: str
    counts: Counts
    rows: int
    disk: Disk
    hours: float | None
    loads: list[Load] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A run: its stages, the shape of its model and the bytes of a GPU, None where they are not known."""

    model: str
    on_cpu: bool
    shape: Shape | None
    memory: float | None
    rate: float | None
    stages: list[StageEstimate]

    @property
    def loads(self) -> list[Load]:
        return [load for stage in self.stages for load in stage.loads or []]


def estimate(recipe: Recipe, rate: float | None = None) -> Estimate:
    """The estimate of a recipe; `rate` is how many tokens one GPU samples in a second, if that was measured."""
    stages = {planned.name: planned for planned in plan(recipe, Path())}
    on_cpu = recipe.trains_base or recipe.device.startswith("cpu")
    shape = None if recipe.trains_base else shape_of(recipe.model)
    memory = None if on_cpu else gpu_memory(recipe.launch.gpu_memory_gb)
    counts = {name: counts_of(planned, stages) for name, planned in stages.items()}
    found = []
    for name, planned in stages.items():
        own, rows = counts[name], _rows(planned, counts)
        disk = disk_of(planned.stage, own, shape, rows)
        hours = 0.0 if on_cpu else gpu_hours(planned.stage, own, recipe.model, rate)
        loads = None if on_cpu or shape is None else loads_of(planned, own, shape, memory)
        found.append(StageEstimate(name, own, rows, disk, hours, loads))
    return Estimate(recipe.model, on_cpu, shape, memory, rate, found)


def _rows(planned: Planned, counts: dict[str, Counts]) -> int:
    """Rows of the training set of a stage, for the paper's number of responses."""
    values = counts[planned.name].values
    as_in_paper = any(counts[name].responses == paper.ROLLOUTS for name in planned.needs)
    return balanced_rows(values, paper.SMALLEST_GROUP) if values and as_in_paper else 0
