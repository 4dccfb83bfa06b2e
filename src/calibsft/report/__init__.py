"""A run as one page: tables, figures, costs and the recipe, in HTML and Markdown.

Takes results that others measured and shows them; `runs` reads them from run folders. Does not run models or
compute a metric of its own: every number comes from `metrics`.
"""

from calibsft.report.page import write_report
from calibsft.report.summary import (
    GradientShare,
    ModelResult,
    RunSummary,
    SeedResult,
    StageCost,
    TargetHistogram,
    TrainingRun,
)
from calibsft.report.tables import seeds_table

__all__ = [
    "GradientShare",
    "ModelResult",
    "RunSummary",
    "SeedResult",
    "StageCost",
    "TargetHistogram",
    "TrainingRun",
    "seeds_table",
    "write_report",
]
