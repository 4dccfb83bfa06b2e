"""Scores of a whole table of responses: pooled, per dataset, and averaged over datasets per split.

An unreadable confidence counts as 0 (`counted`); the figures without those responses are also given (`excluded`). Does
not read files (`files`), parse model responses or grade answers.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import decimals, row_of
from calibsft.metrics.calibration_check import check_table, one_response_each
from calibsft.metrics.compare import mean_of_known, scored_intervals
from calibsft.metrics.correlation import pearson, spearman
from calibsft.metrics.counts import KEYS, Counts, Tally
from calibsft.metrics.evaluate import ECE_CONVENTION, checked_responses, filled, metrics_of
from calibsft.metrics.registry import COMPARED, POOLED_METRICS, QUESTION_METRICS, TABLE_METRICS
from calibsft.metrics.result import MEAN_OVER_DATASETS, CalibrationCheck, Means, Metrics, Scores
from calibsft.metrics.table import ConfidenceTable

EXCLUDED_KEYS = ("brier", "ece", "auroc")


def score_table(
    frame: pl.DataFrame,
    intervals: bool = False,
    interval_metrics: Sequence[str] = COMPARED,
    check: bool = False,
) -> Scores:
    """Score responses pooled, per dataset and per split.

    Parameters
    ----------
    frame : columns `confidence` (in [0, 1]; null = unreadable) and `correct`; optionally `dataset`, `question_id`,
        `split` (a dataset belongs to one split, "id" or "ood" in the paper) and `well_formed`.
    intervals : add `intervals` to every dictionary: for each metric the ends of a 95 % interval, by drawing questions, or
        None; needs `question_id`.
    interval_metrics : which metrics get an interval.
    check : add `check` to the results of all rows and of every dataset: a `CalibrationCheck`, or
        None without a readable confidence.

    Returns
    -------
    `overall`: `evaluate` of all rows. `datasets`: the same per dataset. `splits`: plain means over the datasets of each
    split and, under "mean over datasets", of all. Datasets whose AUROC is None are left out of its mean;
    `auroc_datasets` counts the others. `ece_pooled` is the ECE of all rows of the split together. `pearson` and
    `spearman` are between the datasets' mean confidences and accuracies, None with fewer than three. `datasets` and
    `splits` are empty without a `dataset` column. Every dictionary has `unreadable`, the share of null confidences; if
    that is positive, `excluded`: n, Brier, ECE and AUROC without them; and with a column `well_formed`, `malformed`, the
    share that is not well formed.
    """
    keys = [key for key in KEYS if key in frame.columns]
    tally = Tally(keys, keep_rows=intervals or check)
    tally.add(_checked(frame, keys))
    return score_counts(tally.counts(), intervals, interval_metrics, check=check)


def score_counts(
    counts: Counts,
    intervals: bool = False,
    interval_metrics: Sequence[str] = COMPARED,
    progress: bool = False,
    check: bool = False,
) -> Scores:
    """The scores of counted responses; `intervals` and `check` need counts with rows."""
    values, questions = counts.values, counts.questions
    found: Scores = {"overall": _measured(values, questions), "datasets": {}, "splits": {}}
    members: dict[str, list[str]] = {}
    if "dataset" in values.columns:
        sums = {} if questions is None else _parts(questions, "dataset")
        parts = _parts(values, "dataset")
        found["datasets"] = {name: _measured(part, sums.get(name)) for name, part in parts.items()}
        members = {MEAN_OVER_DATASETS: list(parts), **_members(values)}
        for split, names in members.items():
            pooled = ConfidenceTable.from_counts(pl.concat(parts[name] for name in names))
            found["splits"][split] = _mean_over([found["datasets"][name] for name in names], pooled)
    if intervals:
        _add_intervals(found, counts, members, interval_metrics, progress)
    if check:
        _add_checks(found, counts)
    return found


def _checked(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The columns of `frame` that are counted: confidences as decimals or null, correctness as booleans."""
    for key in keys:
        if key != "question_id" and frame[key].null_count():
            raise InputError(
                f"row {row_of(frame[key].is_null())}: '{key}' is empty; fill it or drop the column"
            )
    given, readable = filled(frame["confidence"])
    stated, right = checked_responses(given, frame["correct"], None)
    read = pl.Series(decimals(stated)).set(pl.Series(~readable), None)
    columns = {key: frame[key] for key in keys}
    if "well_formed" in frame.columns:
        columns["well_formed"] = frame["well_formed"].cast(pl.Boolean)
    return pl.DataFrame({**columns, "confidence": read, "correct": pl.Series(right).cast(pl.Boolean)})


def _parts(frame: pl.DataFrame, column: str) -> dict[str, pl.DataFrame]:
    parts = frame.partition_by(column, as_dict=True)
    return {str(name): part for (name,), part in sorted(parts.items())}


def _members(values: pl.DataFrame) -> dict[str, list[str]]:
    """The datasets of each split; a dataset in two splits is refused."""
    if "split" not in values.columns:
        return {}
    pairs = values.select("dataset", "split").unique().sort("dataset", "split")
    for name, part in _parts(pairs, "dataset").items():
        if part.height > 1:
            raise InputError(
                f"dataset '{name}' is in the splits {' and '.join(map(str, part['split']))};"
                " give the rows of each split their own dataset name"
            )
    return {split: [str(name) for name in part["dataset"]] for split, part in _parts(pairs, "split").items()}


def _add_intervals(
    found: Scores,
    counts: Counts,
    members: Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    progress: bool,
) -> None:
    """Add intervals: of all rows, of every dataset, and of the means over datasets."""
    if counts.rows is None or counts.questions is None:
        raise InputError("intervals are drawn by question: add a column 'question_id'")
    overall, datasets, splits = scored_intervals(counts.rows, members, metrics, progress)
    found["overall"]["intervals"] = overall
    for name, part in found["datasets"].items():
        part["intervals"] = datasets[name]
    for split, mean in found["splits"].items():
        mean["intervals"] = splits[split]


def _add_checks(found: Scores, counts: Counts) -> None:
    """Add the calibration check of all rows and of every dataset, on the same responses."""
    values = _one_each(counts).drop_nulls("confidence")
    found["overall"]["check"] = _check(values)
    parts = _parts(values, "dataset") if found["datasets"] else {}
    for name, part in found["datasets"].items():
        part["check"] = _check(parts.get(name, values.clear()))


def _one_each(counts: Counts) -> pl.DataFrame:
    """Counts of responses, one readable to each question if it is known which there are."""
    if counts.questions is None or counts.rows is None:
        return counts.values
    chosen = one_response_each(counts.rows.drop_nulls("confidence"))
    keys = [name for name in ("dataset", "confidence", "correct") if name in chosen.columns]
    return chosen.group_by(keys).agg(n=pl.len().cast(pl.Int64))


def _check(values: pl.DataFrame) -> CalibrationCheck | None:
    return None if values.is_empty() else check_table(ConfidenceTable.from_counts(values))


def _measured(values: pl.DataFrame, questions: pl.DataFrame | None) -> Metrics:
    found = metrics_of(ConfidenceTable.from_counts(values), questions)
    readable = values.drop_nulls("confidence")
    unread = found["n"] - int(readable["n"].sum())
    found["unreadable"] = unread / found["n"]
    if "malformed" in values.columns:
        found["malformed"] = int(values["malformed"].sum()) / found["n"]
    if unread:
        found["excluded"] = _excluded(readable)
    return found


def _excluded(readable: pl.DataFrame) -> Metrics:
    if readable.is_empty():
        return {"n": 0, **dict.fromkeys(EXCLUDED_KEYS)}
    table = ConfidenceTable.from_counts(readable)
    return {"n": table.responses} | {key: TABLE_METRICS[key](table) for key in EXCLUDED_KEYS}


def _mean_over(parts: Sequence[Metrics], pooled: ConfidenceTable) -> Means:
    """Means over the datasets of a split, and the metrics of all their rows, `pooled`."""
    shares = [name for name in ("unreadable", "malformed") if name in parts[0]]
    found: Means = {
        name: mean_of_known(part[name] for part in parts)
        for name in (*TABLE_METRICS, *QUESTION_METRICS, *shares)
    }
    sides = [part["mean_confidence"] for part in parts], [part["pass@1"] for part in parts]
    found |= {
        "n": sum(part["n"] for part in parts),
        "datasets": len(parts),
        "auroc_datasets": sum(part["auroc"] is not None for part in parts),
        **{name: of(pooled) for name, of in POOLED_METRICS.items()},
        "pearson": pearson(*sides),
        "spearman": spearman(*sides),
        "ece_convention": ECE_CONVENTION,
    }
    if any("excluded" in part for part in parts):
        # A dataset without unreadable responses has no `excluded`; its figures would be the same.
        readable = [part.get("excluded", part) for part in parts]
        found["excluded"] = {key: mean_of_known(part[key] for part in readable) for key in EXCLUDED_KEYS}
        found["excluded"]["n"] = sum(part["n"] for part in readable)
    return found
