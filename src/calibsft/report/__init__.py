"""A run as one page: tables, figures, costs and the recipe, in HTML and Markdown.

Takes results that others measured and shows them; `runs` reads them from run folders. Does not run models or
compute a metric of its own: every number comes from `metrics`.
"""

from calibsft.callable_room import make_callable
from calibsft.report.page import write_report
from calibsft.report.summary import (
    GradientShare,
    ModelResult,
    Responses,
    RunSummary,
    SeedResult,
    StageCost,
    TrainingRun,
    TrainingSet,
)

__all__ = [
    "GradientShare",
    "ModelResult",
    "Responses",
    "RunSummary",
    "SeedResult",
    "StageCost",
    "TrainingRun",
    "TrainingSet",
    "write_report",
]

make_callable(__name__)
