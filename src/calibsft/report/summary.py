"""What a report is made of: frozen records that the pipeline fills from a finished run.

Holds data only. Does not read run folders and trusts no text in it: labels, dataset names, reasons and the
recipe may come from anywhere and are escaped where they are written.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything a report shows.

    `targets` is None for a run without CalibSFT data; `filtered` counts the responses left out of that data
    by reason; `recipe_yaml` is the resolved recipe and `command` the line that makes this page again.
    """

    name: str
    models: tuple[ModelResult, ...]
    targets: TargetHistogram | None
    filtered: dict[str, int]
    costs: tuple[StageCost, ...]
    recipe_yaml: str
    command: str
