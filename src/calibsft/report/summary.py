"""What a report is made of: frozen records that the pipeline fills from a finished run.

Holds data only. Does not read run folders and trusts no text in it: labels, dataset names, reasons and the
recipe may come from anywhere and are escaped where they are written.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """One evaluated model.

    `rows` has one row per response: dataset, split ("id" or "ood"), question_id, sample, confidence (null
    when it could not be read), correct, well_formed and reason (the parser's code, "ok" if well formed).
    """

    label: str
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage took: wall-clock seconds, tokens generated or trained on, peak memory in megabytes."""

    stage: str
    seconds: float
    tokens: int | None
    peak_memory_mb: float | None


@dataclass(frozen=True, slots=True)
class TargetHistogram:
    """Responses per target text (such as "0.37") before and after balancing."""

    before: dict[str, int]
    after: dict[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """One training by RL: `method` applied to the model labelled `start`.

    Attributes
    ----------
    calibrated
        Whether CalibSFT came before it.
    steps
        One row per rollout step, measured on the responses sampled for training: step, pass@1, auroc (null
        where undefined), brier, ece, distinct_values and confidence_entropy (nats).
    evals
        Held-out evaluations during training, one row per step and split: step, split, pass@1, auroc, brier,
        ece; None where there were none.
    """

    label: str
    method: str
    start: str
    calibrated: bool
    steps: pl.DataFrame
    evals: pl.DataFrame | None = None

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


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One evaluated model of one seed: the result of `score_table`, and what RL sampled if it was trained so."""

    seed: int
    label: str
    score: dict[str, dict[str, Any]]
    distinct_values: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything a report shows.

    `targets` is None for a run without CalibSFT data; `filtered` counts the responses left out of that data
    by reason; `recipe_yaml` is the resolved recipe and `command` the line that makes this page again;
    `training` and `gradients` are empty for a run without RL.
    """

    name: str
    models: tuple[ModelResult, ...]
    targets: TargetHistogram | None
    filtered: dict[str, int]
    costs: tuple[StageCost, ...]
    recipe_yaml: str
    command: str
    training: tuple[TrainingRun, ...] = ()
    gradients: tuple[GradientShare, ...] = ()
