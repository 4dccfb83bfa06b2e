"""What a report is made of: frozen records that the pipeline fills from a finished run.

Holds data only. Does not read run folders and trusts no text in it: labels, dataset names, reasons and the
recipe may come from anywhere and are escaped where they are written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """One evaluated model.

    Attributes
    ----------
    rows : one row per response: dataset, split ("id" or "ood"), question_id, sample, confidence (null where it is
        unreadable), correct, well_formed and reason (the parser's code, "ok" if well formed). Rows of a user's file have
        dataset, confidence, correct and reason, and of the others what the file has.
    method : the RL method that trained it last, empty if none did.
    calibrated : whether it has been through CalibSFT; None where that is not known, such as for a file.
    counterpart : the label of the model to compare it with, empty where there is none: in a run the one that differs in
        CalibSFT alone.
    starts_rl : whether it is a model that RL may start from, so that its prior matters.
    budgets : results under token budgets, one row per budget and one with a null budget for no limit: budget, pass@1,
        ece; None where no budget was set.
    benchmark_budgets : the same for every benchmark alone; empty where no budget was set.
    estimators : the scores of every confidence estimator by its name; empty where there is only the stated confidence.
    seed : the seed of its trainings, in a run that has several of them; else None.
    title : what the model is called whatever its seed; empty where that is its label.
    warmed_up : whether it has been through a warm-up.
    """

    label: str
    rows: pl.DataFrame
    method: str = ""
    calibrated: bool | None = None
    counterpart: str = ""
    starts_rl: bool = True
    budgets: pl.DataFrame | None = None
    benchmark_budgets: dict[str, pl.DataFrame] = field(default_factory=dict)
    estimators: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    title: str = ""
    warmed_up: bool = False


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage took: wall-clock seconds, tokens generated or trained on, peak memory in megabytes."""

    stage: str
    seconds: float
    tokens: int | None
    peak_memory_mb: float | None


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """What fine-tuning trained on, by the label of the model that wrote it.

    `before` and `after` balancing count responses per target text (such as "0.37"); `filtered` counts those left out
    by reason. `imitated` says that responses kept their own confidence, as in a warm-up.
    """

    label: str
    before: dict[str, int]
    after: dict[str, int]
    filtered: dict[str, int]
    imitated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """One training by RL: `method` applied to the model labelled `start`.

    Attributes
    ----------
    calibrated : whether CalibSFT came before it; None where that is not known.
    steps : one row per rollout step, measured on the responses sampled for training: step, pass@1, auroc (null where
        undefined), brier, ece, distinct_values and confidence_entropy (nats).
    evals : held-out evaluations during training, one row per step and split: step, split, pass@1, auroc, brier, ece; None
        where there were none.
    seed : its seed, in a run that has several; else None.
    warmed_up : whether a warm-up came before it.
    """

    label: str
    method: str
    start: str
    calibrated: bool | None
    steps: pl.DataFrame
    evals: pl.DataFrame | None = None
    seed: int | None = None
    warmed_up: bool = False

    @property
    def distinct_values(self) -> float | None:
        """Distinct confidence values among the responses to one question, mean over the rollout steps."""
        known = self.steps["distinct_values"].drop_nulls()
        return float(known.sum()) / len(known) if len(known) else None


@dataclass(frozen=True, slots=True, eq=False)
class GradientShare:
    """How the expected gradient of a model is shared among the confidence values, before RL.

    `values` has one row per value of the format: confidence, probability (mean over `contexts` responses) and
    gradient_share.
    """

    label: str
    contexts: int
    values: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Responses:
    """Responses that people can read on the page, of one origin: an evaluated model, or a training set.

    Attributes
    ----------
    training : whether these are the rollouts of a training set.
    rows : one row per response: dataset, question_id, sample, correct and confidence (null where unknown), answer, reason
        and response; of a training set also target (its text), and tokens with their roles (null where not trained on).
    questions : what was asked: dataset, question_id, question and gold (a list).
    total : how many responses the origin has in all.
    """

    label: str
    training: bool
    rows: pl.DataFrame
    questions: pl.DataFrame
    total: int


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One evaluated model: the result of `score_table`, and what RL sampled if it was trained so.

    Models of one `title` differ in their training seed; that of a model which is the same for all seeds is None.
    """

    seed: int | None
    title: str
    score: Mapping[str, Any]
    distinct_values: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything a report shows, of one run or of several side by side.

    `recipe_yaml` is the resolved recipe and `command` the line that makes this page again; what a run does not have is
    empty. `responses` are those that can be read on the page. `benchmark` is the one that all of it is about, empty for all.
    """

    name: str
    models: tuple[ModelResult, ...]
    recipe_yaml: str = ""
    command: str = ""
    training_sets: tuple[TrainingSet, ...] = ()
    costs: tuple[StageCost, ...] = ()
    training: tuple[TrainingRun, ...] = ()
    gradients: tuple[GradientShare, ...] = ()
    responses: tuple[Responses, ...] = ()
    benchmark: str = ""
