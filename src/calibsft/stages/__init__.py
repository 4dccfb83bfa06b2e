"""The stages, one file each: settings, inputs, work, facts. Each is a command, a step of a recipe and a Python function."""

from calibsft.stages.base import BaseStage
from calibsft.stages.build import BuildStage
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.evidence import EvidenceStage
from calibsft.stages.prior import PriorStage
from calibsft.stages.rl import RlStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage
from calibsft.stages.verify import VerifyStage

# The stages with their own command; the report of a run belongs to `calibsft report`.
STAGES: dict[str, type[Stage]] = {
    stage.kind: stage
    for stage in (
        BaseStage,
        RolloutStage,
        VerifyStage,
        EvidenceStage,
        BuildStage,
        SftStage,
        RlStage,
        EvalStage,
        PriorStage,
    )
}

__all__ = ["STAGES", "Stage"]
