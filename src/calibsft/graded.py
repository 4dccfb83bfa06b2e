"""Whether this program has the graders of a finished stage.

A manifest names graders with their versions: under `verifier` those of the stage's answers, under `reward_graders` those
of rewards. Does not grade, and loads no grader for a stage without one.
"""

from collections.abc import Mapping
from typing import Any

VERIFIER, REWARD_GRADERS = "verifier", "reward_graders"


def older_grader(manifest: Mapping[str, Any]) -> str | None:
    """A grader of a finished stage whose version differs from this program's, as part of a sentence; None if there is none."""
    answers, rewards = (manifest.get(key, ()) for key in (VERIFIER, REWARD_GRADERS))
    if not answers and not rewards:
        return None
    from calibsft.verify.verifier import changed_grader

    for name in answers:
        if change := changed_grader(name):
            return f"its answers were graded by {change} (without its manifest.json they are graded again as sampled)"
    for name in rewards:
        if change := changed_grader(name):
            return f"its rewards were graded by {change}"
    return None
