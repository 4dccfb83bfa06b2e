"""Tables that compare: a model with its counterpart before CalibSFT, estimators with each other, priors with what RL needs.

Differences are paired and carry intervals; nothing here decides what is better beyond that. Does not compute a metric of
its own.
"""

from collections.abc import Sequence

from calibsft.metrics.compare import differences
from calibsft.metrics.metric import Column, one_decimal, percent
from calibsft.metrics.result import Difference
from calibsft.prior import diagnose
from calibsft.report.columns import COMPARED, DATASET_COLUMNS, JUDGED, MISSING, metric_rows, metric_table
from calibsft.report.markup import Cell, Table
from calibsft.report.splits import mean_over_all, split_title
from calibsft.report.summary import ModelResult
from calibsft.schema import QUESTION_KEYS

DIFFERENCES_NOTE = (
    "Paired differences of means over benchmarks, with 95 % intervals by drawing questions; bold where the whole"
    " interval is better than 0, in the other colour where it is worse."
)
VERDICTS = {True: "yes", False: "no", None: "not known"}


def difference_tables(models: Sequence[ModelResult], splits: Sequence[str]) -> list[Table]:
    """Every model less its counterpart, by split: what CalibSFT changes, or what differs from the first file."""
    by_label = {model.label: model for model in models}
    known = [(model, by_label[model.counterpart]) for model in models if model.counterpart in by_label]
    pairs = [pair for pair in known if _share_questions(*pair)]
    if not pairs:
        return []
    title = "What CalibSFT changes" if all(model.calibrated for model, _ in pairs) else "Differences"
    found = [differences(model.rows, other.rows, COMPARED)["splits"] for model, other in pairs]
    return [
        metric_table(
            f"{title}, {split_title(split).lower()}",
            {"": [f"{model.label} − {other.label}" for model, other in pairs]},
            JUDGED,
            [
                [_difference_cell(metric, part.get(split, {}).get(metric.name)) for metric in JUDGED]
                for part in found
            ],
            note=DIFFERENCES_NOTE,
        )
        for split in splits
        if any(split in part for part in found)
    ]


def _share_questions(model: ModelResult, other: ModelResult) -> bool:
    if not all({*QUESTION_KEYS} <= {*side.rows.columns} for side in (model, other)):
        return False
    return not model.rows.join(other.rows, on=QUESTION_KEYS, how="semi").is_empty()


def _difference_cell(column: Column, found: Difference | None) -> Cell:
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
    parts = [mean_over_all(scores) for model in models for scores in model.estimators.values()]
    if not parts:
        return None
    keys = {
        "Model": [model.label for model in models for _ in model.estimators],
        "Estimator": [name for model in models for name in model.estimators],
        "Answers": [f"{part['n']:,}" for part in parts],
    }
    # None of them is marked as best.
    body = [[Cell(cell.text) for cell in row] for row in metric_rows(DATASET_COLUMNS, parts)]
    title = "Confidence by estimator, mean over benchmarks"
    return metric_table(title, keys, DATASET_COLUMNS, body, labels=2)


def prior_table(models: Sequence[ModelResult]) -> Table | None:
    """Whether each model that RL may start from needs CalibSFT first, and why; None where there is none."""
    rows = [row for model in models if model.starts_rl and (row := _prior_row(model))]
    header = ("Model", "Worth it", "Why", "Effective support", "Top-1", "Below 0.5")
    return Table("Is CalibSFT worth it before RL?", header, tuple(rows), labels=3) if rows else None


def _prior_row(model: ModelResult) -> tuple[Cell, ...] | None:
    if model.rows["confidence"].drop_nulls().is_empty():
        return None
    keys = [name for name in QUESTION_KEYS if name in model.rows.columns]
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
