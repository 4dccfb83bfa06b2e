"""The stages of a recipe, each after those that it reads.

CalibSFT is four stages on the model before it (rollout, verify, build, sft), and so is a warm-up, which asks with worked
examples and has settings of its own. RL is one, which reads questions and success rates from the rollouts of the base
model, warmed up if the pipeline begins with that. Every model is evaluated. Models with the same first steps share the stages of these
steps. With several training seeds, every training and all that depends on it is done once per seed. Sampling, building and
evaluation keep the recipe's seed, so models of two seeds differ only by their trainings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibsft.artifacts.lineage import CALIBSFT, WARMUP
from calibsft.errors import InputError
from calibsft.launchers import ServerLaunch
from calibsft.pipeline.chain import Chain, chains
from calibsft.recipe import Recipe, find_recipe, load_recipe
from calibsft.sft.settings import SftSettings
from calibsft.stages.base import BaseStage
from calibsft.stages.build import BuildStage
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.evidence import EvidenceStage
from calibsft.stages.prior import PriorStage
from calibsft.stages.report import ReportStage
from calibsft.stages.rl import RlStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage
from calibsft.stages.verify import VerifyStage
from calibsft.targets import TARGETS, TargetSettings
from calibsft.targets.stated import StatedSettings

REPORT = "report"
# Begins the names of the stages that make a warm-up's training set.
SHOTS = "shots-"


@dataclass(frozen=True, slots=True)
class Planned:
    """One stage of a run: its folder's name, the stage, and the folders that must be finished before it.

    `launcher` is the command that starts it on several devices; empty for stages that run in this process. `servers` are
    started before it.
    """

    name: str
    stage: Stage
    needs: tuple[str, ...]
    launcher: tuple[str, ...] = ()
    servers: ServerLaunch | None = None

    @property
    def takes_all(self) -> bool:
        """Whether it uses all devices, so that nothing else may run beside it."""
        return bool(self.launcher or self.servers)


def plan(recipe: Recipe, root: Path) -> list[Planned]:
    """The stages of a run in `root`, in order."""
    found: dict[str, Planned] = {}
    planner = _Planner(recipe, root)
    for chain in dict.fromkeys(chains(recipe)):
        for planned in planner.model(chain):
            planned.stage.check()
            launcher = recipe.launch.command(planned.stage.kind)
            found.setdefault(planned.name, replace(planned, launcher=launcher))
    read = {name for planned in found.values() for name in planned.needs}
    last = tuple(name for name in found if name not in read)
    report = ReportStage(root=root, name=recipe.name, last=last)
    return [*found.values(), Planned(REPORT, report, last)]


def up_to(stages: Sequence[Planned], names: Sequence[str]) -> list[Planned]:
    """The stages called `names` and all that these need, in order."""
    known = {planned.name: planned for planned in stages}
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += known[name].needs
    return [planned for planned in stages if planned.name in wanted]


def load_checked(
    name_or_path: str, overrides: Sequence[str] | None = None, layers: Sequence[str] | None = None
) -> Recipe:
    """A recipe whose stages were all planned: settings that do not fit together are refused now, not hours later."""
    recipe = load_recipe(name_or_path, overrides, layers)
    try:
        plan(recipe, Path())
    except InputError as error:
        raise InputError(f"{find_recipe(name_or_path)}: {error}") from error
    return recipe


def stage_names(recipe: Recipe) -> list[str]:
    """The names of a recipe's stages, in order."""
    return [planned.name for planned in plan(recipe, Path())]


class _Planner:
    """Makes the stages of one run."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe, self._root = recipe, root

    def model(self, chain: Chain) -> Iterator[Planned]:
        """The stages that make the model of `chain` from the one before it, and its evaluation."""
        if not chain.steps:
            if self._recipe.trains_base:
                yield Planned(chain.training, self._stage(BaseStage, chain), ())
        elif chain.steps[-1] == CALIBSFT:
            yield from self._sampled(chain.parent.sampled)
            yield from self._fine_tuned(chain, self._recipe.targets, self._recipe.sft)
        elif chain.steps[-1] == WARMUP:
            yield from self._warmed_up(chain)
        else:
            yield from self._prior(chain.parent)
            yield from self._sampled(chain.first.sampled)
            yield self._rl(chain)
        evaluated = self._stage(EvalStage, chain, model=self._checkpoint(chain))
        yield Planned(chain.evaluation, evaluated, self._before(chain))

    def _sampled(self, chain: Chain, part: str = "", **own: Any) -> Iterator[Planned]:
        """Rollouts of a model on the training questions, with verdicts."""
        rollout, verify = self._graded(chain, part)
        sampled = self._stage(RolloutStage, chain, model=self._checkpoint(chain), **own)
        yield Planned(rollout, sampled, self._before(chain))
        verdicts = self._stage(VerifyStage, chain, responses=self._root / rollout)
        yield Planned(verify, verdicts, (rollout,))

    def _warmed_up(self, chain: Chain) -> Iterator[Planned]:
        """The model before, asked with worked examples and fine-tuned on its well-formed responses."""
        warmup = self._recipe.warmup
        assert warmup is not None, "a recipe with this step has its settings"
        asked = {"questions": warmup.questions, "rollout": warmup.rollout}
        yield from self._sampled(chain.parent.sampled, SHOTS, **asked)
        yield from self._fine_tuned(chain, StatedSettings(), warmup.sft, SHOTS)

    def _fine_tuned(
        self, chain: Chain, targets: TargetSettings, sft: SftSettings, part: str = ""
    ) -> Iterator[Planned]:
        """A training set of the rollouts of the model before, and that model fine-tuned on it."""
        parent, sampled = chain.parent, chain.parent.sampled
        build, graded = parent.stage(part + BuildStage.kind), self._graded(sampled, part)
        measured = list(self._evidence(sampled, targets))
        yield from measured
        built = self._stage(
            BuildStage,
            parent,
            source=self._root / graded[0],
            verdicts=self._root / graded[1],
            evidence=self._root / measured[0].name if measured else None,
            from_format=self._format(sampled),
            targets=targets,
        )
        yield Planned(build, built, (*graded, *(planned.name for planned in measured)))
        tuned = self._stage(
            SftStage,
            parent,
            model=self._checkpoint(parent),
            data=self._root / build,
            sft=sft,
            seed=self._recipe.training_seed(chain.seed),
        )
        yield Planned(chain.training, tuned, (*self._before(parent), build))

    def _evidence(self, chain: Chain, targets: TargetSettings) -> Iterator[Planned]:
        """The evidence that the target needs of the responses of `chain`, if it needs any."""
        names, graded = TARGETS[targets.name].evidence, self._graded(chain)
        if names:
            measured = self._stage(
                EvidenceStage,
                chain,
                rollouts=self._root / graded[0],
                verdicts=self._root / graded[1],
                names=names,
            )
            yield Planned(chain.stage(EvidenceStage.kind), measured, graded)

    def _prior(self, chain: Chain) -> Iterator[Planned]:
        """The prior of a model that RL starts from, if the recipe asks for it."""
        if self._recipe.prior.contexts:
            measured = self._stage(
                PriorStage, chain, model=self._checkpoint(chain), evaluation=self._root / chain.evaluation
            )
            yield Planned(chain.prior, measured, (*self._before(chain), chain.evaluation))

    def _rl(self, chain: Chain) -> Planned:
        method, graded = chain.steps[-1], self._graded(chain.first.sampled)
        trained = self._stage(
            RlStage,
            chain,
            model=self._checkpoint(chain.parent),
            data=self._root / graded[0],
            verdicts=self._root / graded[1],
            rl=self._recipe.rl_of(method),
            seed=self._recipe.training_seed(chain.seed),
        )
        needs = (*self._before(chain.parent), *graded)
        return Planned(chain.training, trained, needs, servers=self._recipe.launch.servers)

    def _stage(self, kind: type[Stage], chain: Chain, **own: Any) -> Stage:
        """A stage with the fields in `own`; its other fields come from the recipe, if the recipe has them."""
        shared = {
            name: getattr(self._recipe, name) for name in kind.model_fields if hasattr(self._recipe, name)
        }
        if "format" in shared:
            shared["format"] = self._format(chain)
        return kind(**{**shared, **own})

    def _graded(self, chain: Chain, part: str = "") -> tuple[str, str]:
        """The folders of a model's rollouts and of their verdicts."""
        return chain.stage(part + RolloutStage.kind), chain.stage(part + VerifyStage.kind)

    def _before(self, chain: Chain) -> tuple[str, ...]:
        """The stage that makes the model of `chain`; none for a base model that is loaded."""
        return (chain.training,) if chain.steps or self._recipe.trains_base else ()

    def _checkpoint(self, chain: Chain) -> str:
        before = self._before(chain)
        return str(self._root / before[0] / "model") if before else self._recipe.model

    def _format(self, chain: Chain) -> str:
        return chain.other_format or self._recipe.format
