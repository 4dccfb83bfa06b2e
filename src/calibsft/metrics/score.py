"""Scores of a whole table of responses: pooled, per dataset, and averaged over datasets per split.

A confidence that could not be read counts as 0 (`counted`), and the figures without those responses stand
beside it (`excluded`). Does not read files (`files`), parse model responses or grade answers.
"""

from collections.abc import Iterable
from typing import Any

import polars as pl

from calibsft.errors import InputError
from calibsft.metrics.bootstrap import intervals as bounds
from calibsft.metrics.evaluate import ECE_CONVENTION, METRICS, Metrics, evaluate
from calibsft.tables import row_of

MEAN_OVER_DATASETS = "mean over datasets"
EXCLUDED_KEYS = ("brier", "ece", "auroc")


def score_table(frame: pl.DataFrame, intervals: bool = False) -> dict[str, Metrics]:
    """Score responses pooled, per dataset and per split.

    Parameters
    ----------
    frame : columns `confidence` (in [0, 1]; null = could not be read) and `correct`; optionally `dataset`,
        `question_id` and `split` (a dataset belongs to one split, "id" or "ood" in the paper).
    intervals : add `intervals` to every dictionary: per metric the ends of a 95 % interval by drawing questions, or
        None; needs `question_id`.

    Returns
    -------
    `overall`: `evaluate` of all rows. `datasets`: the same per dataset. `splits`: plain means over the
    datasets of each split and, under "mean over datasets", of all; datasets whose AUROC is None are left
    out of its mean and `auroc_datasets` counts the others; `ece_pooled` is the ECE of the split's rows
    taken together. Both are empty without a `dataset` column. Every dictionary has `malformed`, the share
    of null confidences, and where that is positive `excluded`: n, Brier, ECE and AUROC without them.
    """
    overall = _measured(frame)
    if "dataset" not in frame.columns:
        found = {"overall": overall, "datasets": {}, "splits": {}}
        return _with_intervals(found, frame, {}, {}) if intervals else found
    parts = _parts(frame, "dataset")
    datasets = {name: _measured(part) for name, part in parts.items()}
    members = {MEAN_OVER_DATASETS: list(parts)}
    splits = {MEAN_OVER_DATASETS: _mean_over(datasets.values(), overall["ece"])}
    if "split" in frame.columns:
        _require_one_split(parts)
        for split, rows in _parts(frame, "split").items():
            members[split] = [str(name) for name in rows["dataset"].unique().sort()]
            splits[split] = _mean_over([datasets[name] for name in members[split]], _measured(rows)["ece"])
    found = {"overall": overall, "datasets": datasets, "splits": splits}
    return _with_intervals(found, frame, parts, members) if intervals else found


def _with_intervals(
    found: dict[str, Any], frame: pl.DataFrame, parts: dict[str, pl.DataFrame], members: dict[str, list[str]]
) -> dict[str, Metrics]:
    """`found` with intervals: of all rows, of every dataset, and of the means over datasets."""
    if "question_id" not in frame.columns:
        raise InputError("intervals are drawn by question: add a column 'question_id'")
    from calibsft.metrics.compare import draws_of, mean_draws

    together = frame.with_columns(question_id=_questions(frame))
    found["overall"]["intervals"] = bounds(draws_of(together))
    draws = {name: draws_of(part) for name, part in parts.items()}
    for name, drawn in draws.items():
        found["datasets"][name]["intervals"] = bounds(drawn)
    for split, names in members.items():
        found["splits"][split]["intervals"] = bounds(mean_draws({name: draws[name] for name in names}))
    return found


def _measured(frame: pl.DataFrame) -> Metrics:
    confidence = frame["confidence"]
    if confidence.dtype == pl.Null:
        confidence = confidence.cast(pl.Float64)
    questions = _questions(frame)
    found = evaluate(confidence.fill_null(0), frame["correct"], questions)
    unread = confidence.null_count()
    found["malformed"] = unread / frame.height
    if unread:
        found["excluded"] = _excluded(frame.filter(confidence.is_not_null()))
    return found


def _excluded(readable: pl.DataFrame) -> Metrics:
    if readable.is_empty():
        return {"n": 0, **dict.fromkeys(EXCLUDED_KEYS)}
    found = evaluate(readable["confidence"], readable["correct"])
    return {key: found[key] for key in ("n", *EXCLUDED_KEYS)}


def _questions(frame: pl.DataFrame) -> pl.Series | None:
    # The same id in two datasets is two questions.
    keys = [name for name in ("dataset", "question_id") if name in frame.columns]
    return frame.select(pl.struct(keys))[:, 0] if "question_id" in keys else None


def _parts(frame: pl.DataFrame, column: str) -> dict[str, pl.DataFrame]:
    if frame[column].null_count():
        raise InputError(
            f"row {row_of(frame[column].is_null())}: '{column}' is empty; fill it or drop the column"
        )
    parts = frame.partition_by(column, as_dict=True)
    return {str(name): part for (name,), part in sorted(parts.items())}


def _require_one_split(parts: dict[str, pl.DataFrame]) -> None:
    for name, part in parts.items():
        splits = part["split"].unique().sort().to_list()
        if len(splits) > 1:
            raise InputError(
                f"dataset '{name}' is in the splits {' and '.join(map(str, splits))};"
                " give the rows of each split their own dataset name"
            )


def _mean_over(datasets: Iterable[Metrics], ece_pooled: float) -> Metrics:
    parts = list(datasets)
    found: Metrics = {
        name: _mean(part[name] for part in parts) for name in (*METRICS, "cap_brier", "malformed")
    }
    found |= {
        "n": sum(part["n"] for part in parts),
        "datasets": len(parts),
        "auroc_datasets": sum(part["auroc"] is not None for part in parts),
        "ece_pooled": ece_pooled,
        "ece_convention": ECE_CONVENTION,
    }
    if any("excluded" in part for part in parts):
        # A dataset without malformed responses is the same under both policies.
        readable = [part.get("excluded", part) for part in parts]
        found["excluded"] = {key: _mean(part[key] for part in readable) for key in EXCLUDED_KEYS}
        found["excluded"]["n"] = sum(part["n"] for part in readable)
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
