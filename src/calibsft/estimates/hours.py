"""GPU-hours of a stage: from the paper's measurements, or from a rate that somebody measured.

The paper's figures are for its model alone; they are scaled by the number of responses and by nothing else.
"""

from calibsft.estimates import paper
from calibsft.estimates.counts import Counts
from calibsft.hub import name_and_revision
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.rl import RlStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage

SAMPLES = (RolloutStage, EvalStage)
# Of the trainings: minutes of a step on the paper's GPUs, and the responses that it trains on.
STEPS = {
    SftStage: (paper.SFT_MINUTES, paper.SFT_RESPONSES),
    RlStage: (paper.RL_MINUTES, paper.RL_RESPONSES),
}


def gpu_hours(stage: Stage, counts: Counts, model: str, rate: float | None) -> float | None:
    """The GPU-hours of a stage; 0 if it needs no GPU, None if they are not known.

    `model` is the one that the run starts from. `rate` is how many tokens one GPU samples in a second; it does not
    apply to trainings, whose steps also take time that is not sampling.
    """
    known = name_and_revision(model)[0] == paper.MODEL
    if isinstance(stage, SAMPLES):
        if rate is not None:
            return None if counts.tokens is None else counts.tokens / rate / 3600
        return (
            counts.responses * paper.ROLLOUT_GPU_HOURS / paper.ROLLOUTS
            if known and counts.responses
            else None
        )
    if type(stage) not in STEPS:
        return 0.0
    minutes, responses = STEPS[type(stage)]
    return counts.steps * counts.per_step / responses * minutes * paper.GPUS / 60 if known else None
