"""A task for lm-eval: questions asked, read and scored as `calibsft eval` does.

`python -m calibsft.integrations.lm_eval` prints the folder for `--include_path`; docs/ecosystem.md
has the whole command.
"""

from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
TASK = "calibsft"


def registered() -> str:
    """What lm-eval finds in this folder; raises `LookupError` if it does not find the task."""
    from lm_eval.tasks import TaskManager

    if TASK not in TaskManager(include_path=str(FOLDER), include_defaults=False).all_tasks:
        raise LookupError(f"lm-eval finds no task '{TASK}' in {FOLDER}; install calibsft again")
    return f"lm_eval {version('lm_eval')} has the task '{TASK}' with --include_path {FOLDER}"
