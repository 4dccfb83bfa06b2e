"""From a recipe to its stages, each after those that it reads.

CalibSFT is four stages on the model before it (rollout, verify, build, sft); RL is one, which reads questions and
success rates from the base model's rollouts. Every model is evaluated. Models that share a beginning share its
stages, by name. With several training seeds every training and all that depends on it is there once for each, while
what is sampled, built and evaluated keeps the recipe's seed: models of two seeds differ by their trainings alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calibsft.artifacts.lineage import CALIBSFT
from calibsft.errors import InputError
from calibsft.pipeline.chain import Chain, chains
from calibsft.recipe import Recipe, find_recipe, load_recipe
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
from calibsft.targets import TARGETS

REPORT = "report"


@dataclass(frozen=True, slots=True)
class Planned:
    """One stage of a run: its folder's name, the stage, and the folders that must be finished before it."""

    name: str
    stage: Stage
    needs: tuple[str, ...]


def plan(recipe: Recipe, root: Path) -> list[Planned]:
    """The stages of a run in `root`, in order."""
    found: dict[str, Planned] = {}
    planner = _Planner(recipe, root)
    for chain in dict.fromkeys(chains(recipe)):
        for planned in planner.model(chain):
            planned.stage.check()
            found.setdefault(planned.name, planned)
    read = {name for planned in found.values() for name in planned.needs}
    last = tuple(name for name in found if name not in read)
    report = ReportStage(root=root, name=recipe.name, last=last)
    return [*found.values(), Planned(REPORT, report, last)]


def load_checked(name_or_path: str, overrides: list[str] | None = None) -> Recipe:
    """A recipe all of whose stages can be planned: settings that do not go together are refused now, not hours later."""
    recipe = load_recipe(name_or_path, overrides)
    try:
        plan(recipe, Path())
    except InputError as error:
        raise InputError(f"{find_recipe(name_or_path)}: {error}") from error
    return recipe


def stage_names(recipe: Recipe) -> list[str]:
    """The names of a recipe's stages, in the order of the work."""
    return [planned.name for planned in plan(recipe, Path())]


class _Planner:
    """Makes the stages of one run."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe, self._root = recipe, root

    def model(self, chain: Chain) -> Iterator[Planned]:
        """How the model of `chain` is made from the one before it, and its evaluation."""
        if not chain.steps:
            if self._recipe.trains_base:
                base = BaseStage(base=self._recipe.base, seed=self._recipe.seed)
                yield Planned(chain.training, base, ())
        elif chain.steps[-1] == CALIBSFT:
            yield from self._sampled(chain.parent.sampled)
            yield from self._calibsft(chain)
        else:
            yield from self._prior(chain.parent)
            yield from self._sampled(chain.base.sampled)
            yield self._rl(chain)
        yield self._evaluation(chain)

    def _sampled(self, chain: Chain) -> Iterator[Planned]:
        """Rollouts of a model on the training questions, with verdicts."""
        recipe, rollout = self._recipe, chain.stage(RolloutStage.kind)
        sampled = RolloutStage(
            model=self._checkpoint(chain),
            questions=recipe.questions,
            rollout=recipe.rollout,
            engine=recipe.engine,
            format=self._format(chain),
            seed=recipe.seed,
            device=recipe.device,
            dtype=recipe.dtype,
        )
        yield Planned(rollout, sampled, self._before(chain))
        verdicts = VerifyStage(
            responses=self._root / rollout,
            format=self._format(chain),
            judge=recipe.judge,
            device=recipe.device,
            dtype=recipe.dtype,
        )
        yield Planned(chain.stage(VerifyStage.kind), verdicts, (rollout,))

    def _calibsft(self, chain: Chain) -> Iterator[Planned]:
        """Targets for the rollouts of the model before, and that model fine-tuned on them."""
        recipe, parent = self._recipe, chain.parent
        sampled = parent.sampled
        rollout, verify = sampled.stage(RolloutStage.kind), sampled.stage(VerifyStage.kind)
        build = parent.stage(BuildStage.kind)
        measured = list(self._evidence(sampled, TARGETS[recipe.targets.name].evidence))
        yield from measured
        built = BuildStage(
            source=self._root / rollout,
            verdicts=self._root / verify,
            evidence=self._root / measured[0].name if measured else None,
            targets=recipe.targets,
            format=self._format(parent),
            from_format=self._format(sampled),
            seed=recipe.seed,
        )
        yield Planned(build, built, (rollout, verify, *(planned.name for planned in measured)))
        tuned = SftStage(
            model=self._checkpoint(parent),
            data=self._root / build,
            sft=recipe.sft,
            format=self._format(parent),
            seed=recipe.training_seed(chain.seed),
            device=recipe.device,
        )
        yield Planned(chain.training, tuned, (*self._before(parent), build))

    def _evidence(self, chain: Chain, names: tuple[str, ...]) -> Iterator[Planned]:
        """What a target needs to know of the responses, where it needs anything."""
        recipe = self._recipe
        rollout, verify = chain.stage(RolloutStage.kind), chain.stage(VerifyStage.kind)
        if names:
            measured = EvidenceStage(
                rollouts=self._root / rollout,
                verdicts=self._root / verify,
                names=names,
                evidence=recipe.evidence,
                judge=recipe.judge,
                device=recipe.device,
                dtype=recipe.dtype,
            )
            yield Planned(chain.stage(EvidenceStage.kind), measured, (rollout, verify))

    def _prior(self, chain: Chain) -> Iterator[Planned]:
        """What a model that RL starts from can learn, where the recipe asks for it."""
        recipe = self._recipe
        if recipe.prior.contexts:
            measured = PriorStage(
                model=self._checkpoint(chain),
                evaluation=self._root / chain.evaluation,
                prior=recipe.prior,
                format=self._format(chain),
                device=recipe.device,
                dtype=recipe.dtype,
            )
            yield Planned(chain.prior, measured, (*self._before(chain), chain.evaluation))

    def _rl(self, chain: Chain) -> Planned:
        recipe, method, sampled = self._recipe, chain.steps[-1], chain.base.sampled
        rollout, verify = sampled.stage(RolloutStage.kind), sampled.stage(VerifyStage.kind)
        trained = RlStage(
            model=self._checkpoint(chain.parent),
            method=method,
            data=self._root / rollout,
            verdicts=self._root / verify,
            rl=recipe.rl_of(method),
            engine=recipe.engine,
            eval=recipe.eval,
            judge=recipe.judge,
            format=self._format(chain),
            seed=recipe.training_seed(chain.seed),
            device=recipe.device,
        )
        return Planned(chain.training, trained, (*self._before(chain.parent), rollout, verify))

    def _evaluation(self, chain: Chain) -> Planned:
        recipe = self._recipe
        evaluated = EvalStage(
            model=self._checkpoint(chain),
            engine=recipe.engine,
            eval=recipe.eval,
            judge=recipe.judge,
            format=self._format(chain),
            seed=recipe.seed,
            device=recipe.device,
            dtype=recipe.dtype,
        )
        return Planned(chain.evaluation, evaluated, self._before(chain))

    def _before(self, chain: Chain) -> tuple[str, ...]:
        """The stage that makes the model of `chain`; none for a base that the recipe names."""
        return (chain.training,) if chain.steps or self._recipe.trains_base else ()

    def _checkpoint(self, chain: Chain) -> str:
        before = self._before(chain)
        return str(self._root / before[0] / "model") if before else self._recipe.model

    def _format(self, chain: Chain) -> str:
        return chain.other_format or self._recipe.format
