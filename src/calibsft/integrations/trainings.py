"""The training that a pipeline of a recipe ends with, as `calibsft run` would perform it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibsft.errors import InputError
from calibsft.pipeline.chain import chains
from calibsft.pipeline.plan import load_checked, plan, plan_models
from calibsft.stages.rl import RlStage
from calibsft.stages.sft import SftStage


@dataclass(frozen=True, slots=True)
class Training:
    """A stage of a recipe that trains, and its name: the recipe's and the pipeline's."""

    name: str
    stage: RlStage | SftStage


def find_training(
    recipe: str, pipeline: str | None, run: Path | None, model: str | None, overrides: Sequence[str]
) -> Training:
    """The last training of `pipeline`, steps separated by commas, or of the recipe's last pipeline.

    `run` is the folder with the stages before it, and `model` replaces the checkpoint that these would make. What is read
    must exist.
    """
    chosen = [f"pipelines=[[{pipeline}]]"] if pipeline is not None else []
    resolved = load_checked(recipe, [*overrides, *chosen])
    *_, chain = chains(resolved)
    if not chain.steps or len(resolved.training_seeds) > 1:
        raise InputError(
            f"{recipe}: one training is exported; name a pipeline with at least one step, and at most one training seed"
        )
    root = run or Path("runs") / resolved.run_name
    training = plan_models(resolved, root)[chain].training
    (stage,) = (planned.stage for planned in plan(resolved, root) if planned.name == training)
    assert isinstance(stage, RlStage | SftStage)
    if model is not None:
        stage = stage.model_copy(update={"model": model})
    _require_stages(stage, root, recipe)
    return Training("-".join((resolved.name, *chain.steps)), stage)


def _require_stages(stage: RlStage | SftStage, root: Path, recipe: str) -> None:
    """Refuse a training before the stages that it reads."""
    verdicts = stage.verdicts if isinstance(stage, RlStage) else None
    read = [stage.data, *([verdicts] if verdicts else [])]
    if Path(stage.model).is_relative_to(root):
        read.append(Path(stage.model))
    for path in read:
        if not path.exists():
            stage_name = path.relative_to(root).parts[0] if path.is_relative_to(root) else path.name
            raise InputError(
                f"{path}: not made yet; run calibsft run {recipe} --out {root} --until {stage_name} first"
                + (", or give another checkpoint with --model" if path == Path(stage.model) else "")
            )
