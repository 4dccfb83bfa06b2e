"""Disk that a stage needs: what stays, and what exists only while it runs. Upper bounds.

Tables of verdicts and labels, and a page, are small beside responses and checkpoints and are left out.
"""

from dataclasses import dataclass
from math import ceil

from calibsft.estimates.counts import Counts
from calibsft.estimates.shapes import Shape
from calibsft.stages.rl import RlStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage

# A token of a response: its id, and about four characters, before compression.
TOKEN = 8
WEIGHT, OPTIMISER, SENT = 4, 8, 2
# The newest two running checkpoints are kept, and a third is there while it is written.
CHECKPOINTS = 3


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes; None if the model's shape is not known."""

    kept: float | None = 0.0
    running: float | None = 0.0


def disk_of(stage: Stage, counts: Counts, shape: Shape | None, rows: int) -> Disk:
    """The disk of one stage; `rows` are those of the training set that it makes, 0 if it makes none."""
    if isinstance(stage, SftStage | RlStage):
        return Disk(None, None) if shape is None else _of_training(stage, counts, shape)
    if rows:
        return Disk(2.0 * rows * counts.longest * TOKEN)  # as a table and as text for other trainers
    return Disk(None if counts.tokens is None else float(counts.tokens * TOKEN))


def _of_training(stage: SftStage | RlStage, counts: Counts, shape: Shape) -> Disk:
    settings = stage.sft if isinstance(stage, SftStage) else stage.rl
    trained = shape.adapters(settings.lora.rank) if settings.lora else shape.parameters
    saved = min(CHECKPOINTS, ceil(counts.steps / settings.save_every))
    running = saved * trained * (WEIGHT + OPTIMISER)
    if isinstance(stage, RlStage) and stage.rl.servers is not None and stage.rl.servers.weights == "file":
        running += 2 * SENT * shape.parameters  # the weights that servers have, and the next
    return Disk(float(WEIGHT * shape.parameters), float(running))
