"""Tables that compare: a model with its counterpart before CalibSFT, estimators with each other, priors with what RL needs.

Differences are paired and carry intervals; nothing here decides what is better beyond that. Does not compute a metric of
its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from calibsft.metrics import MEAN_OVER_DATASETS, Metrics
from calibsft.metrics.compare import differences
from calibsft.metrics.metric import Column, one_decimal, percent
from calibsft.prior import diagnose
from calibsft.report.columns import DATASET_COLUMNS, JUDGED, MISSING, metric_rows, whole
from calibsft.report.markup import Cell, Table
from calibsft.report.summary import ModelResult
from calibsft.report.tables import labelled, split_title

# What is compared, and gets intervals in a report.
COMPARED = tuple(metric.name for metric in JUDGED)
VERDICTS = {True: "yes", False: "no", None: "cannot be told"}


def difference_tables(models: Sequence[ModelResult], splits: Sequence[str]) -> list[Table]:
    """Every model less its counterpart, by split: what CalibSFT changes, or what differs from the first file."""
    by_label = {model.label: model for model in models}
    pairs = [(model, by_label[model.counterpart]) for model in models if model.counterpart in by_label]
    pairs = [pair for pair in pairs if _share_questions(*pair)]
    if not pairs:
        return []
    title = "What CalibSFT changes" if all(model.calibrated for model, _ in pairs) else "Differences"
    found = [differences(model.rows, other.rows, COMPARED)["splits"] for model, other in pairs]
    labels = [f"{model.label} − {other.label}" for model, other in pairs]
    return [
        _difference_table(
            f"{title}, {split_title(split).lower()}", labels, [part.get(split, {}) for part in found]
        )
        for split in splits
        if any(split in part for part in found)
    ]


def _share_questions(model: ModelResult, other: ModelResult) -> bool:
    keys = ["dataset", "question_id"]
    if not all({*keys} <= {*side.rows.columns} for side in (model, other)):
        return False
    return not model.rows.select(keys).join(other.rows.select(keys), on=keys, how="semi").is_empty()


def _difference_table(title: str, labels: Sequence[str], parts: Sequence[Mapping[str, Any]]) -> Table:
    rows = [tuple(_difference_cell(metric, part.get(metric.name)) for metric in JUDGED) for part in parts]
    return Table(
        title=title,
        header=("", *(metric.header for metric in JUDGED)),
        rows=labelled(labels, rows),
        note="Paired differences of means over benchmarks, with 95 % intervals by drawing questions; bold where the whole"
        " interval is better than 0, in the other colour where it is worse.",
    )


def _difference_cell(column: Column, found: Mapping[str, float] | None) -> Cell:
    if found is None:
        return Cell(MISSING)
    above, below = found["low"] > 0, found["high"] < 0
    better, worse = (above, below) if column.better == "higher" else (below, above)
    span = f"{_signed(found['low'])} to {_signed(found['high'])}"
    return Cell(_signed(found["difference"]), best=better, worse=worse, span=span)


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text.replace("-", "−") if float(text) else "0.000"


def estimator_table(models: Sequence[ModelResult]) -> Table | None:
    """Every estimator of every model that has more than one, means over benchmarks; None if none has."""
    found = [
        (model.label, name, _mean_part(scores))
        for model in models
        for name, scores in model.estimators.items()
    ]
    if not found:
        return None
    body = metric_rows(DATASET_COLUMNS, [part for *_, part in found])
    rows = tuple(
        (Cell(label), Cell(name), Cell(whole(part["n"])), *(Cell(cell.text) for cell in cells))
        for (label, name, part), cells in zip(found, body, strict=True)
    )
    header = ("Model", "Estimator", "Answers", *(column.header for column in DATASET_COLUMNS))
    return Table("Confidence by estimator, mean over benchmarks", header, rows, labels=2)


def _mean_part(scores: Mapping[str, Any]) -> Metrics:
    means: Metrics = scores["splits"].get(MEAN_OVER_DATASETS, scores["overall"])
    return means


def prior_table(models: Sequence[ModelResult]) -> Table | None:
    """Whether each model that RL may start from needs CalibSFT first, and why; None where there is none."""
    rows = [row for model in models if model.starts_rl and (row := _prior_row(model))]
    header = ("Model", "Worth it", "Why", "Effective support", "Top-1", "Below 0.5")
    return Table("Is CalibSFT worth it before RL?", header, tuple(rows), labels=3) if rows else None


def _prior_row(model: ModelResult) -> tuple[Cell, ...] | None:
    if model.rows["confidence"].drop_nulls().is_empty():
        return None
    keys = [name for name in ("dataset", "question_id") if name in model.rows.columns]
    questions = model.rows.select(keys).to_struct() if "question_id" in keys else None
    found = diagnose(model.rows["confidence"], model.rows["correct"], questions)
    stated = found.everything
    top = stated.top[0]
    return (
        Cell(model.label),
        Cell(VERDICTS[found.verdict.worth_it]),
        Cell(". ".join(reason[:1].upper() + reason[1:] for reason in found.verdict.reasons) + "."),
        Cell(one_decimal(stated.effective_support)),
        Cell(f"{top.confidence:.2f}: {percent(top.share)}"),
        Cell(percent(stated.below_half)),
    )
