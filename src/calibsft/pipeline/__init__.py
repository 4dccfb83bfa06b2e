"""Plans and runs the stages of a recipe: finished ones are skipped, independent ones can run in parallel.

The folder of a stage records its settings and inputs. A finished stage is skipped if neither has changed; otherwise it is
refused, and the error names the changed key. Heavy libraries are imported when a stage runs, never before.
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
