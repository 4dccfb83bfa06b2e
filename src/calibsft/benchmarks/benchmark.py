"""What a benchmark is: data plus at most one small function; loader, grader and CLI know the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from calibsft.schema import Question


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A versioned set of questions.

    Attributes
    ----------
    split
        "id" when questions like these are trained on, "ood" otherwise; results are averaged by split.
    samples
        Responses per question at evaluation.
    load
        The questions, in a fixed order; their `dataset` is the benchmark's name.
    """

    name: str
    description: str
    split: Literal["id", "ood"]
    samples: int
    version: int
    load: Callable[[], Sequence[Question]]
