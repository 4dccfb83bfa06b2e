"""The models of a run: what was done to the base, in order, and how it writes its confidence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calibsft.artifacts.lineage import BASE, WARMUP, split_step, with_variant
from calibsft.errors import InputError
from calibsft.recipe import Recipe
from calibsft.rl.methods import METHODS
from calibsft.stages.sft import SftStage


@dataclass(frozen=True, slots=True)
class Chain:
    """One model of a run.

    `steps` are "warmup", "calibsft" and names of RL methods, each perhaps with a variant. `other_format` is its confidence
    format if that is not the recipe's, else empty. `seed` is the seed of its trainings if the recipe has several. `base` is
    the variant of the base model, empty for the recipe's own.
    """

    steps: tuple[str, ...]
    other_format: str = ""
    seed: int | None = None
    base: str = ""

    @property
    def parent(self) -> "Chain":
        """The model that the last step started from."""
        return replace(self, steps=self.steps[:-1])

    @property
    def last(self) -> tuple[str, str]:
        """The name of the last step and of its variant; of a base model, its own."""
        return split_step(self.steps[-1]) if self.steps else (BASE, self.base)

    def then(self, step: str) -> "Chain":
        """The model after one more step."""
        return replace(self, steps=(*self.steps, step))

    @property
    def first(self) -> "Chain":
        """The model whose rollouts tell RL its questions and their success rates: the base, or what its warm-up made of it."""
        warmed_up = [step for step in self.steps[:1] if split_step(step)[0] == WARMUP]
        return replace(self, steps=tuple(warmed_up))

    @property
    def sampled(self) -> "Chain":
        """The model itself, as it is sampled: the base only in the recipe's format.

        A training set in another format has the same responses with their confidences rewritten.
        """
        return self if self.steps else replace(self, other_format="")

    @property
    def evaluation(self) -> str:
        """The stage that evaluates the model."""
        return f"eval-{self.stage() if self.steps else self._base_stage()}"

    @property
    def prior(self) -> str:
        """The stage that measures the model's prior."""
        return self.evaluation.replace("eval", "prior", 1)

    def stage(self, name: str = "", variant: str = "") -> str:
        """The folder of this model's stage `name`, with the variant of that stage; without a name, the model's own."""
        is_trained = self.seed is not None and (self.steps or name == SftStage.kind)
        parts = (
            with_variant(BASE, self.base) if self.base else "",
            *self.steps,
            with_variant(name, variant),
            self.other_format,
            f"seed{self.seed}" if is_trained else "",
        )
        return "-".join(part for part in parts if part)

    def _base_stage(self) -> str:
        return self.stage() if self.base else self.stage(BASE)


def chains(recipe: Recipe) -> Iterator[Chain]:
    """Every model that the recipe's pipelines make, each after the one it starts from; repeats included."""
    for pipeline in recipe.pipelines:
        yield from chains_of(recipe, pipeline)


def chains_of(recipe: Recipe, pipeline: tuple[str, ...]) -> Iterator[Chain]:
    """Every model that one pipeline makes, the base first."""
    other = other_format(recipe, pipeline)
    named = [split_step(step)[1] for step in pipeline if split_step(step)[0] == BASE]
    steps = pipeline[len(named) :]
    for length in range(len(steps) + 1):
        # The base model is the same for all seeds.
        seeds = recipe.training_seeds if length and len(recipe.training_seeds) > 1 else (None,)
        yield from (Chain(steps[:length], other, seed, "".join(named)) for seed in seeds)


def other_format(recipe: Recipe, pipeline: tuple[str, ...]) -> str:
    """The format of the pipeline's models, if a method needs it or a variant asks for it; empty for the recipe's."""
    asked: dict[str, str] = {}  # each format with the step that asks for it
    for step in pipeline:
        name, variant = split_step(step)
        if written := str(recipe.variants.get(variant, {}).get("format", "")):
            asked.setdefault(written, step)
        elif name in METHODS and METHODS[name].formats and recipe.format not in METHODS[name].formats:
            asked.setdefault(METHODS[name].formats[0], step)
    if len(asked) > 1:
        one, other = list(asked.items())[:2]
        raise InputError(
            f"the pipeline {list(pipeline)} has two formats: {one[0]} for {one[1]} and {other[0]} for {other[1]}; give all"
            " steps of a pipeline one format"
        )
    return next((written for written in asked if written != recipe.format), "")
