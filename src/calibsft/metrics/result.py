"""What `evaluate`, `score_table`, `score_file` and `differences` return: plain dictionaries with these keys.

`calibsft score --json` prints them. Fractions, not percent; None if a metric has no value.
"""

from typing import Any, NotRequired, TypeAlias, TypedDict

MEAN_OVER_DATASETS = "mean over datasets"

Interval: TypeAlias = tuple[float, float]
Intervals: TypeAlias = dict[str, Interval | None]

# Every metric of `METRICS` by name, as a number or None, and the keys below. The type names no keys, because a type checker
# does not see the names in `METRICS`.
#
# For one set of responses: n, ece_convention, questions (if responses have question ids); in scores of tables also
# unreadable, malformed, excluded (n and some metrics without the unreadable responses), intervals and check (a
# `CalibrationCheck`).
Metrics: TypeAlias = dict[str, Any]
# For a split: plain means over its datasets under the same names, and datasets, auroc_datasets (how many have an AUROC),
# ece_pooled (of all rows together), pearson and spearman (between the datasets' mean confidences and accuracies).
Means: TypeAlias = dict[str, Any]


class Difference(TypedDict):
    """A metric of one system minus that of another, with its interval."""

    difference: float
    low: float
    high: float


class CalibrationCheck(TypedDict):
    """Whether an error of calibration is more than chance, on one response to each question.

    `n` responses, their `ece`; `noise_ece`, the mean ECE of calibrated outcomes for the same stated
    confidences, and `noise_ece_95`, which 95 % of `draws` stay within; `p_value`, how often
    calibrated outcomes fit as badly.
    """

    n: int
    ece: float
    noise_ece: float
    noise_ece_95: float
    p_value: float
    draws: int


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
    """The scores of a table; for a file also the number of rows `dropped`, and the differences `against` a baseline."""

    overall: Metrics
    datasets: dict[str, Metrics]
    splits: dict[str, Means]
    dropped: NotRequired[int]
    against: NotRequired[Differences]
