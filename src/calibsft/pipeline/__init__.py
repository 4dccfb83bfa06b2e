"""Which stages a recipe needs, in order, skipping what is done and running side by side what can.

A stage names the settings that shape it and the stages that it reads. Its folder records both, so a finished stage is
skipped when nothing that shaped it has changed, and refused - by the name of the changed key - when something
has. Heavy libraries are imported when a stage runs, never before.
"""

from calibsft.pipeline.execute import run_pipeline
from calibsft.pipeline.plan import Stage, plan, recorded_order, report_order, stage_names
from calibsft.pipeline.report_stage import belongs_to_run, report_stage

__all__ = [
    "Stage",
    "belongs_to_run",
    "plan",
    "recorded_order",
    "report_order",
    "report_stage",
    "run_pipeline",
    "stage_names",
]
