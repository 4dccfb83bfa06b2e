"""The paper's rows and the pipelines that make their models."""

from calibsft.reproduction.experiment import Cells
from calibsft.reproduction.quantity import mean_of
from calibsft.reproduction.study import Pipeline

WITH = " + CalibSFT"
ALONE: dict[str, Pipeline] = {"Base": (), "RLVR": ("rlvr",), "CalibSFT": ("calibsft",)}
# The five confidence-aware methods, from the base and from CalibSFT.
FROM_BASE: dict[str, Pipeline] = {
    "RLCR": ("rlcr",),
    "ReDoubt": ("rlvr", "redoubt"),
    "CoCA": ("coca",),
    "DCPO": ("dcpo",),
    "C3RL": ("c3rl",),
}
FROM_CALIBSFT: dict[str, Pipeline] = {
    "RLCR": ("calibsft", "rlcr"),
    "ReDoubt": ("rlvr", "calibsft", "redoubt"),
    "CoCA": ("calibsft", "coca"),
    "DCPO": ("calibsft", "dcpo"),
    "C3RL": ("calibsft", "c3rl"),
}
FIVE = tuple(FROM_BASE)


def pairs(methods: tuple[str, ...] = FIVE) -> dict[str, Pipeline]:
    """The rows of some methods, each from the base and from CalibSFT."""
    found: dict[str, Pipeline] = {}
    for method in methods:
        found |= {method: FROM_BASE[method], method + WITH: FROM_CALIBSFT[method]}
    return found


def add_means(cells: Cells, methods: tuple[str, ...], number: str) -> None:
    """Add the rows "Mean of five" and "Mean of five + CalibSFT", by the word for the `number` of methods."""
    for end in ("", WITH):
        rows = [cells[method + end] for method in methods]
        cells[f"Mean of {number}{end}"] = {
            column: mean_of([row[column] for row in rows]) for column in rows[0]
        }
