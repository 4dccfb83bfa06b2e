"""What `evaluate`, `score_table`, `score_file` and `differences` return: plain dictionaries with these keys.

They are what `calibsft score --json` prints. Fractions, not percent; None where a metric has no value.
"""

from typing import NotRequired, TypeAlias, TypedDict

MEAN_OVER_DATASETS = "mean over datasets"

Interval: TypeAlias = tuple[float, float]
Intervals: TypeAlias = dict[str, Interval | None]

# "pass@1" is no Python name, so this one key has to be written so.
_Accuracy = TypedDict("_Accuracy", {"pass@1": float})


class Excluded(TypedDict):
    """The figures without the responses whose confidence could not be read."""

    n: int
    brier: float | None
    ece: float | None
    auroc: float | None


class _Shared(_Accuracy):
    """What one set of responses and a mean over datasets have in common."""

    n: int
    mean_confidence: float
    auroc: float | None
    brier: float
    ece: float
    ece_convention: str
    pce: float
    cap_brier: float | None
    e_aurc: float
    rce: float | None
    rce_tie: float
    top1: float
    top3: float
    effective_support: float
    extreme_share: float
    unreadable: NotRequired[float]
    malformed: NotRequired[float]
    excluded: NotRequired[Excluded]
    intervals: NotRequired[Intervals]


class Metrics(_Shared):
    """The metrics of one set of responses; `questions` where the responses have question ids."""

    support: int
    questions: NotRequired[int]


class Means(_Shared):
    """Plain means over the datasets of a split, and what is a figure of the split itself.

    `auroc_datasets` have an AUROC; `ece_pooled` is that of all rows together; `pearson` and `spearman` are between the
    datasets' mean confidences and accuracies.
    """

    support: float
    datasets: int
    auroc_datasets: int
    ece_pooled: float
    pearson: float | None
    spearman: float | None


class Difference(TypedDict):
    """A metric of one system less that of another, with its interval."""

    difference: float
    low: float
    high: float


class Differences(TypedDict):
    """Paired differences between two systems; `left_out` counts the questions that only one of them answered.

    `splits` are differences of plain means over datasets.
    """

    overall: dict[str, Difference | None]
    datasets: dict[str, dict[str, Difference | None]]
    splits: dict[str, dict[str, Difference | None]]
    questions: int
    left_out: int
    level: float
    baseline: NotRequired[str]


class Scores(TypedDict):
    """The scores of a table; of a file also how many rows were `dropped`, and `against` a baseline."""

    overall: Metrics
    datasets: dict[str, Metrics]
    splits: dict[str, Means]
    dropped: NotRequired[int]
    against: NotRequired[Differences]
