"""The finished models of a study, and what was measured of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibsft.artifacts import JOURNAL, MANIFEST, read_manifest
from calibsft.metrics.correlation import pearson, spearman
from calibsft.pipeline import Model, plan_models
from calibsft.pipeline.chain import Chain, chains_of
from calibsft.recipe import Recipe
from calibsft.reproduction.quantity import Quantity, by_seed
from calibsft.reproduction.scores import Scores, evaluation_scores, over_seeds, split_mean

Pipeline = tuple[str, ...]
SPLITS = ("id", "ood")
CORRELATIONS = {"pearson": pearson, "spearman": spearman}


@dataclass(frozen=True, eq=False)
class Trained:
    """One model of the study with all its training seeds; a base model has no seed and is one model."""

    root: Path
    models: tuple[Model, ...]

    @cached_property
    def scores(self) -> list[Scores]:
        return [evaluation_scores(self.root / model.evaluation) for model in self.models]

    def of(self, part: str, metric: str) -> Quantity:
        """A metric of one benchmark, or its mean over the benchmarks of a split."""
        read = split_mean if part in SPLITS else over_seeds
        return read(self.scores, part, metric)

    def correlation(self, split: str, kind: str) -> Quantity:
        """Between the mean confidences and the accuracies of a split's benchmarks, in each draw for itself."""
        names = self.scores[0].splits[split]
        sides = [
            np.stack([self.of(name, metric) for name in names]) for metric in ("mean_confidence", "pass@1")
        ]
        found = [
            CORRELATIONS[kind](confidence.tolist(), accuracy.tolist())
            for confidence, accuracy in zip(*(side.reshape(len(names), -1).T for side in sides), strict=True)
        ]
        return np.array([np.nan if one is None else one for one in found]).reshape(sides[0].shape[1:])

    def folders(self, name: str) -> list[Path]:
        """The folders of a stage: "training", "evaluation" or "data"."""
        found = [getattr(model, name) for model in self.models]
        assert None not in found, f"the model has no such stage: {name}"
        return [self.root / folder for folder in found]

    def per_seed(self, measure: Callable[[Path], float], stage: str = "training") -> Quantity:
        """A number that is read from the folder of each seed."""
        return by_seed(measure(folder) for folder in self.folders(stage))

    def steps(self) -> list[pl.DataFrame]:
        """The journal of each seed's RL, one row per rollout step."""
        return [_journal(folder / JOURNAL) for folder in self.folders("training")]


@dataclass(eq=False)
class Study:
    """A study in `root`: the models of its recipe's pipelines with some of its training seeds, read when they are asked for."""

    recipe: Recipe
    root: Path
    seeds: tuple[int, ...]
    _read: dict[Pipeline, Trained] = field(default_factory=dict)

    @cached_property
    def _models(self) -> dict[Chain, Model]:
        return plan_models(self.recipe, self.root)

    def model(self, *pipeline: str) -> Trained:
        """The model that a pipeline makes."""
        if pipeline not in self._read:
            ends = ends_of(self.recipe, pipeline, self.seeds)
            self._read[pipeline] = Trained(self.root, tuple(self._models[chain] for chain in ends))
        return self._read[pipeline]

    def is_finished(self, pipelines: Sequence[Pipeline]) -> bool:
        """Whether all models of some pipelines are evaluated."""
        models = [model for pipeline in pipelines for model in self.model(*pipeline).models]
        return all((self.root / model.evaluation / MANIFEST).is_file() for model in models)

    @property
    def evaluations(self) -> list[str]:
        """The stages that evaluate the models with the chosen seeds, those on the way too."""
        chosen = (None, *self.seeds)
        return list(dict.fromkeys(m.evaluation for chain, m in self._models.items() if chain.seed in chosen))

    def cost(self, stage: str) -> dict[str, Any]:
        """What the manifest of a stage says of its cost."""
        return read_manifest(self.root / stage)


def ends_of(recipe: Recipe, pipeline: Pipeline, seeds: Sequence[int]) -> list[Chain]:
    """The last models of a pipeline, one for each seed; a base model has none."""
    made = list(chains_of(recipe, pipeline))
    return [chain for chain in made if chain.steps == made[-1].steps and chain.seed in (None, *seeds)]


def _journal(path: Path) -> pl.DataFrame:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return pl.DataFrame(rows, infer_schema_length=None)
