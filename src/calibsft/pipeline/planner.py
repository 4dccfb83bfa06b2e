"""Turns the models of a recipe into stages.

CalibSFT is four stages on the model before it (rollout, verify, build, sft), and so is a warm-up, which asks with worked
examples and has settings of its own. RL is one, which reads questions and success rates from the rollouts of the base
model, warmed up if the pipeline begins with that. Every model is evaluated. Models with the same first steps share the
stages of these steps. A step with a variant shares every stage that the variant does not change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibsft.artifacts.lineage import BASE, CALIBSFT, WARMUP, with_variant
from calibsft.errors import InputError
from calibsft.pipeline.chain import Chain
from calibsft.pipeline.planned import Model, Planned
from calibsft.recipe import Recipe
from calibsft.sft.settings import SftSettings
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
from calibsft.targets import TARGETS, TargetSettings
from calibsft.targets.stated import StatedSettings

# Begins the names of the stages that make a warm-up's training set.
SHOTS = "shots-"
# The beginning of a reference to a model of the same run, and the keys that may hold one, by section.
OF_RUN = "run:"
MODELS_OF = {"evidence": "embedding_model", "judge": "model"}
Own = Callable[[Recipe], dict[str, Any]]


@dataclass(slots=True)
class _Step:
    """One step of a pipeline: the model before it, its settings, and whether its variant changed one of its stages so far.

    A stage that reads a changed one is another stage too, so all that follow are.
    """

    parent: Chain
    name: str
    variant: str
    recipe: Recipe
    varied: bool = False

    @property
    def chain(self) -> Chain:
        """The model after the step, without the name of a variant that has changed nothing."""
        return self.parent.then(with_variant(self.name, self.variant if self.varied else ""))


class Planner:
    """Makes the stages of one run; `models` has the stages of every model that was planned."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe, self._root = recipe, root
        self._varied = {name: recipe.varied(name) for name in ("", *recipe.variants)}
        self._resolved: dict[Chain, Chain] = {}
        self._trainings: dict[Chain, str] = {}
        self._evaluations: dict[Chain, str] = {}
        self.models: dict[Chain, Model] = {}

    def model(self, chain: Chain) -> Iterator[Planned]:
        """The stages that make the model of `chain` from the one before it, and its evaluation."""
        name, variant = chain.last
        step = _Step(self._parent(chain), name, variant, self._varied[variant])
        planned = list(self._making(chain, step))
        yield from planned
        made = step.chain if chain.steps else chain
        self._resolved[chain] = made
        if any(isinstance(one.stage, BaseStage | SftStage | RlStage) for one in planned):
            self._trainings[_made(made)] = planned[-1].name
        evaluation = self._evaluation(chain, made, step)
        yield evaluation
        self._evaluations.setdefault(made, evaluation.name)
        self.models[chain] = self._model(made, evaluation.name, planned)

    def _parent(self, chain: Chain) -> Chain:
        """The model before, by the steps that shaped it."""
        parent = chain.parent
        return self._resolved[parent] if parent.steps else parent

    def _model(self, made: Chain, evaluation: str, planned: list[Planned]) -> Model:
        built = [one.name for one in planned if isinstance(one.stage, BuildStage)]
        graded = [(one.needs[0], one.name) for one in planned if isinstance(one.stage, VerifyStage)]
        training = next(iter(self._before(made)), None)
        return Model(training, evaluation, built[0] if built else None, graded[0] if graded else None)

    def _making(self, chain: Chain, step: _Step) -> Iterator[Planned]:
        """The stages that make a model; the last one trains it."""
        if not chain.steps:
            if step.recipe.trains_base:
                stage = self._stage(step.recipe, BaseStage, chain, variant=chain.base)
                yield Planned(_made(chain).stage() or BASE, stage, ())
        elif step.name == CALIBSFT:
            sampled = list(self._sampled(step, step.parent.sampled))
            yield from sampled
            yield from self._fine_tuned(
                step, sampled, lambda recipe: recipe.targets, lambda recipe: recipe.sft
            )
        elif step.name == WARMUP:
            yield from self._warmed_up(step)
        else:
            plain = _Step(step.parent, step.name, "", self._recipe)
            yield from self._prior(step.parent)
            yield from self._sampled(plain, step.parent.first.sampled)
            yield self._rl(step)

    def _evaluation(self, chain: Chain, made: Chain, step: _Step) -> Planned:
        def name(variant: str) -> str:
            return (step.parent.then(with_variant(step.name, variant)) if chain.steps else chain).evaluation

        needs, model = self._before(made), self._checkpoint(made)
        return self._planned(step, EvalStage, name, made, needs, lambda recipe: {"model": model})

    def _sampled(
        self, step: _Step, chain: Chain, part: str = "", own: Own = lambda recipe: {}
    ) -> Iterator[Planned]:
        """Rollouts of a model on the training questions, with verdicts."""
        model = self._checkpoint(chain)
        rollout = self._planned(
            step,
            RolloutStage,
            lambda variant: chain.stage(part + RolloutStage.kind, variant),
            chain,
            self._before(chain),
            lambda recipe: {"model": model, **own(recipe)},
        )
        yield rollout
        responses = self._root / rollout.name
        yield self._planned(
            step,
            VerifyStage,
            lambda variant: chain.stage(part + VerifyStage.kind, variant),
            chain,
            (rollout.name,),
            lambda recipe: {"responses": responses},
        )

    def _warmed_up(self, step: _Step) -> Iterator[Planned]:
        """The model before, asked with worked examples and fine-tuned on its well-formed responses."""

        def asked(recipe: Recipe) -> dict[str, Any]:
            assert recipe.warmup is not None, "a recipe with this step has its settings"
            return {"questions": recipe.warmup.questions, "rollout": recipe.warmup.rollout}

        def tuned(recipe: Recipe) -> SftSettings:
            assert recipe.warmup is not None
            return recipe.warmup.sft

        sampled = list(self._sampled(step, step.parent.sampled, SHOTS, asked))
        yield from sampled
        yield from self._fine_tuned(step, sampled, lambda recipe: StatedSettings(), tuned, SHOTS)

    def _fine_tuned(
        self,
        step: _Step,
        sampled: Sequence[Planned],
        targets: Callable[[Recipe], TargetSettings],
        sft: Callable[[Recipe], SftSettings],
        part: str = "",
    ) -> Iterator[Planned]:
        """A training set of the rollouts of the model before and their verdicts, `sampled`, and that model fine-tuned on it."""
        parent = step.parent
        graded = sampled[0].name, sampled[1].name
        measured = list(self._evidence(step, parent.sampled, targets, graded))
        yield from measured
        sources = {
            "source": self._root / graded[0],
            "verdicts": self._root / graded[1],
            "evidence": self._root / measured[0].name if measured else None,
            "from_format": self._format(parent.sampled),
        }
        built = self._planned(
            step,
            BuildStage,
            lambda variant: parent.stage(part + BuildStage.kind, variant),
            parent,
            (*graded, *(planned.name for planned in measured)),
            lambda recipe: {**sources, "targets": targets(recipe)},
        )
        yield built
        model, data = self._checkpoint(parent), self._root / built.name
        yield self._planned(
            step,
            SftStage,
            lambda variant: self._training_name(step, variant),
            parent,
            (*self._before(parent), built.name),
            lambda recipe: {"model": model, "data": data, "sft": sft(recipe), "seed": self._seed(parent)},
        )

    def _training_name(self, step: _Step, variant: str) -> str:
        if step.name == CALIBSFT:
            return step.parent.stage(SftStage.kind, variant)
        return step.parent.then(with_variant(step.name, variant)).stage()

    def _evidence(
        self,
        step: _Step,
        chain: Chain,
        targets: Callable[[Recipe], TargetSettings],
        graded: tuple[str, str],
    ) -> Iterator[Planned]:
        """The evidence that the target needs of the responses of `chain`, if it needs any."""
        names, plain = (TARGETS[targets(recipe).name].evidence for recipe in (step.recipe, self._recipe))
        if names:
            step.varied = step.varied or names != plain
            read = {"rollouts": self._root / graded[0], "verdicts": self._root / graded[1], "names": names}
            yield self._planned(
                step,
                EvidenceStage,
                lambda variant: chain.stage(EvidenceStage.kind, variant),
                chain,
                graded,
                lambda recipe: read,
            )

    def _prior(self, chain: Chain) -> Iterator[Planned]:
        """The prior of a model that RL starts from, if the recipe asks for it."""
        if self._recipe.prior.contexts:
            evaluation = self._evaluations[chain if chain.steps else replace(chain, seed=None)]
            measured = self._stage(
                self._recipe,
                PriorStage,
                chain,
                model=self._checkpoint(chain),
                evaluation=self._root / evaluation,
            )
            yield Planned(chain.prior, measured, (*self._before(chain), evaluation))

    def _rl(self, step: _Step) -> Planned:
        parent, first = step.parent, step.parent.first.sampled
        graded = first.stage(RolloutStage.kind), first.stage(VerifyStage.kind)
        read = {
            "model": self._checkpoint(parent),
            "data": self._root / graded[0],
            "verdicts": self._root / graded[1],
            "seed": self._seed(parent),
        }
        planned = self._planned(
            step,
            RlStage,
            lambda variant: self._training_name(step, variant),
            parent,
            (*self._before(parent), *graded),
            lambda recipe: {**read, "rl": recipe.rl_of(step.name)},
        )
        return replace(planned, servers=self._recipe.launch.servers)

    def _planned(
        self,
        step: _Step,
        kind: type[Stage],
        name: Callable[[str], str],
        about: Chain,
        needs: tuple[str, ...],
        own: Own,
    ) -> Planned:
        """A stage of `step` in the format of the model `about`.

        `own` has the fields that do not come from the recipe by name, and `name` takes the variant's name, empty if the
        variant does not change the stage.
        """
        stage = self._stage(step.recipe, kind, about, **own(step.recipe))
        if step.variant and not step.varied:
            plain = self._stage(self._recipe, kind, about, **own(self._recipe))
            step.varied = stage.shaped_by() != plain.shaped_by()
        variant = step.variant if step.varied else ""
        if "variant" in kind.model_fields:
            stage = stage.model_copy(update={"variant": variant})
        asked = self._asked(step.recipe, kind).values()
        return Planned(name(variant), stage, tuple(dict.fromkeys((*needs, *asked))))

    def _stage(self, recipe: Recipe, kind: type[Stage], chain: Chain, **own: Any) -> Stage:
        """A stage with the fields in `own`; its other fields come from the recipe, if the recipe has them."""
        shared = {name: getattr(recipe, name) for name in kind.model_fields if hasattr(recipe, name)}
        if "format" in shared:
            shared["format"] = self._format(chain)
        for field, stage in self._asked(recipe, kind).items():
            made = {MODELS_OF[field]: str(self._root / stage / "model")}
            shared[field] = shared[field].model_copy(update=made)
        return kind(**{**shared, **own})

    def _asked(self, recipe: Recipe, kind: type[Stage]) -> dict[str, str]:
        """By section of a stage: the stage of this run whose model it names, as `run:base`, for those that name one."""
        found = {}
        for field, key in MODELS_OF.items():
            if field not in kind.model_fields:
                continue
            given = getattr(getattr(recipe, field), key) or ""
            if given.startswith(OF_RUN):
                found[field] = given.removeprefix(OF_RUN)
                if found[field] not in self._trainings.values():
                    raise InputError(
                        f"{field}.{key} = {given}: no earlier pipeline of the recipe makes a model in a stage of that name; put"
                        " one that does before the others"
                    )
        return found

    def _before(self, chain: Chain) -> tuple[str, ...]:
        """The stage that makes the model of `chain`; none for a base model that is loaded."""
        training = self._trainings.get(_made(chain))
        return (training,) if training else ()

    def _checkpoint(self, chain: Chain) -> str:
        before = self._before(chain)
        return str(self._root / before[0] / "model") if before else self._varied[chain.base].model

    def _format(self, chain: Chain) -> str:
        return chain.other_format or self._recipe.format

    def _seed(self, chain: Chain) -> int:
        return self._recipe.training_seed(chain.seed)


def _made(chain: Chain) -> Chain:
    """The model as it is trained: a base model is the same in all formats and for all seeds."""
    return chain if chain.steps else Chain((), base=chain.base)
