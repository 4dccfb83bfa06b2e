"""Models over training seeds: mean ± standard deviation, and each seed.

Works on the dictionaries of `metrics.score_table`. The deviation is that of a sample (n − 1) and is shown for two seeds
or more. Does not compute a metric or read a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from calibsft.metrics import MEAN_OVER_DATASETS, Metrics
from calibsft.metrics.metric import Column
from calibsft.report.columns import DISTINCT, MISSING, SEED_COLUMNS, metric_rows, metric_table
from calibsft.report.markup import DEVIATION, Cell, Table
from calibsft.report.splits import split_title
from calibsft.report.summary import SeedResult


def each_seed_table(results: Sequence[SeedResult], split: str = MEAN_OVER_DATASETS) -> Table:
    """One row per model and seed, seed by seed; a model that is the same for all seeds comes first.

    `results` are in the order to be shown; `split` is "id", "ood", or all benchmarks.
    """
    columns, body = _columns(results), []
    keys: dict[str, list[str]] = {"Seed": [], "Model": []}
    seeds = sorted({result.seed for result in results}, key=lambda seed: -1 if seed is None else seed)
    for seed in seeds:
        same = [result for result in results if result.seed == seed]
        keys["Seed"] += [MISSING if seed is None else str(seed)] * len(same)
        keys["Model"] += [result.title for result in same]
        # The best is marked among the models of one seed.
        body += metric_rows(columns, [_metrics(result, split) for result in same])
    title = f"{split_title(split)}, {'1 seed' if len(seeds) == 1 else 'each seed'}"
    return metric_table(title, keys, columns, body, labels=2)


def spread_table(results: Sequence[SeedResult], split: str = MEAN_OVER_DATASETS) -> Table | None:
    """Every model once, as mean ± standard deviation over its seeds; None where no model has several."""
    by_title: dict[str, list[SeedResult]] = {}
    for result in results:
        by_title.setdefault(result.title, []).append(result)
    most = max((len(same) for same in by_title.values()), default=0)
    if most < 2:
        return None
    columns, parts = _columns(results), [_parts(same, split) for same in by_title.values()]
    body = metric_rows(columns, [{key: mean(values) for key, values in part.items()} for part in parts])
    spread = [
        [_with_deviation(*pair, part) for pair in zip(columns, cells, strict=True)]
        for cells, part in zip(body, parts, strict=True)
    ]
    short = [
        f"{title}: {len(same)} of {most}"
        for title, same in by_title.items()
        if len(same) < most and same[0].seed is not None
    ]
    return metric_table(
        f"{split_title(split)}, mean ± sd over {most} training seeds",
        {"Model": list(by_title)},
        columns,
        spread,
        note=f"Seeds in the mean: {', '.join(short)}." if short else "",
    )


def _columns(results: Sequence[SeedResult]) -> list[Column]:
    """The columns of seeds; that of distinct values only where some model was trained by RL."""
    sampled = any(result.distinct_values is not None for result in results)
    return [column for column in SEED_COLUMNS if sampled or column is not DISTINCT]


def _metrics(result: SeedResult, split: str) -> Metrics:
    return {**result.score["splits"].get(split, {}), DISTINCT.name: result.distinct_values}


def _parts(same: Sequence[SeedResult], split: str) -> dict[str, list[float]]:
    """The values of every column that all seeds of a model have."""
    found = [_metrics(result, split) for result in same]
    values: dict[str, list[Any]] = {c.name: [part.get(c.name) for part in found] for c in SEED_COLUMNS}
    return {key: known for key, known in values.items() if None not in known}


def _with_deviation(column: Column, cell: Cell, part: Mapping[str, Sequence[float]]) -> Cell:
    values = part.get(column.name, ())
    return replace(cell, span=f"{DEVIATION} {column.write(stdev(values))}") if len(values) > 1 else cell
