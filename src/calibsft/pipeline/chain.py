"""The models of a run: what was done to the base, in order, and how it writes its confidence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calibsft.artifacts.lineage import CALIBSFT, WARMUP
from calibsft.recipe import Recipe
from calibsft.rl.methods import METHODS
from calibsft.stages.sft import SftStage


@dataclass(frozen=True, slots=True)
class Chain:
    """One model of a run.

    `steps` are "warmup", "calibsft" and names of RL methods. `other_format` is its confidence format if a method needs another one
    than the recipe's, else empty. `seed` is the seed of its trainings if the recipe has several.
    """

    steps: tuple[str, ...]
    other_format: str = ""
    seed: int | None = None

    @property
    def parent(self) -> "Chain":
        """The model that the last step started from."""
        return replace(self, steps=self.steps[:-1])

    @property
    def first(self) -> "Chain":
        """The model whose rollouts tell RL its questions and their success rates: the base, or what its warm-up made of it."""
        return replace(self, steps=self.steps[:1] if self.steps[:1] == (WARMUP,) else ())

    @property
    def sampled(self) -> "Chain":
        """The model itself, as it is sampled: the base only in the recipe's format.

        A training set in another format has the same responses with their confidences rewritten.
        """
        return self if self.steps else replace(self, other_format="")

    @property
    def evaluation(self) -> str:
        """The stage that evaluates the model."""
        return f"eval-{self.stage() if self.steps else self.stage('base')}"

    @property
    def prior(self) -> str:
        """The stage that measures the model's prior."""
        return self.evaluation.replace("eval", "prior", 1)

    @property
    def training(self) -> str:
        """The stage that makes the model."""
        if not self.steps:
            return "base"
        return self.parent.stage(SftStage.kind) if self.steps[-1] == CALIBSFT else self.stage()

    def stage(self, name: str = "") -> str:
        """The folder of this model's stage `name`; without a name, the model's own."""
        is_trained = self.seed is not None and (self.steps or name == SftStage.kind)
        parts = (*self.steps, name, self.other_format, f"seed{self.seed}" if is_trained else "")
        return "-".join(part for part in parts if part)


def chains(recipe: Recipe) -> Iterator[Chain]:
    """Every model that the recipe's pipelines make, each after the one it starts from; repeats included."""
    for pipeline in recipe.pipelines:
        other = other_format(recipe, pipeline)
        for length in range(len(pipeline) + 1):
            # The base model is the same for all seeds.
            seeds = recipe.training_seeds if length and len(recipe.training_seeds) > 1 else (None,)
            yield from (Chain(pipeline[:length], other, seed) for seed in seeds)


def other_format(recipe: Recipe, pipeline: tuple[str, ...]) -> str:
    """The format that a method of the pipeline needs, if it cannot use the recipe's; else empty."""
    needed = [METHODS[step].formats for step in pipeline if step in METHODS and METHODS[step].formats]
    return needed[0][0] if needed and recipe.format not in needed[0] else ""
