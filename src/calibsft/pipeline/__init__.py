"""Which stages a recipe needs, in order, skipping what is done and running side by side what can.

A stage names the settings that shape it and what it reads. Its folder records both, so a finished stage is skipped when
nothing that shaped it has changed, and refused - by the name of the changed key - when something has. Heavy libraries
are imported when a stage runs, never before.
"""

from calibsft.pipeline.execute import run_pipeline
from calibsft.pipeline.plan import Planned, load_checked, plan, stage_names
from calibsft.pipeline.run_report import belongs_to_run, report_of

__all__ = [
    "Planned",
    "belongs_to_run",
    "load_checked",
    "plan",
    "report_of",
    "run_pipeline",
    "stage_names",
]
