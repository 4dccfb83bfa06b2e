"""Plans and runs the stages of a recipe: finished ones are skipped, independent ones can run in parallel.

The folder of a stage records its settings and inputs. A finished stage is skipped if neither has changed; otherwise it is
refused, and the error names the changed key. Heavy libraries are imported when a stage runs, never before.
"""

from calibsft.pipeline.execute import perform_launched, run_pipeline
from calibsft.pipeline.plan import REPORT, load_checked, plan, plan_models, stage_names
from calibsft.pipeline.planned import Model, Planned

__all__ = [
    "REPORT",
    "Model",
    "Planned",
    "load_checked",
    "perform_launched",
    "plan",
    "plan_models",
    "run_pipeline",
    "stage_names",
]
