"""Evaluate a model on benchmarks: sample, verify, score.

Uses the same rollouts and the same verifier as the training data. Leaves `rows.parquet`, one row per
response, which every metric, figure and decision can be recomputed from.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from calibsft.artifacts import shards, write_json, write_parquet
from calibsft.benchmarks import get_benchmark
from calibsft.errors import InputError
from calibsft.metrics import score_table
from calibsft.recipe import EvalSettings
from calibsft.responses.formats import Format
from calibsft.verify.verdicts import verify_folder

if TYPE_CHECKING:
    from calibsft.rollouts.collect import Collector

ROWS = "rows.parquet"
METRICS = "metrics.json"


def evaluate_model(
    model_name: str,
    settings: EvalSettings,
    confidence_format: Format,
    seed: int,
    folder: Path,
    device: str,
    dtype: str,
    label: str,
) -> dict[str, Any]:
    """Fill `folder` with rollouts, verdicts, rows and metrics; returns facts for the manifest."""
    from calibsft.rollouts.load import load_collector

    require_benchmarks(settings)
    collector = load_collector(model_name, confidence_format, settings, seed, device, dtype)
    return {"model": model_name, **evaluate_with(collector, settings, folder, label)}


def evaluate_with(collector: "Collector", settings: EvalSettings, folder: Path, label: str) -> dict[str, Any]:
    """The same with a model that is loaded already."""
    benchmarks = {name: get_benchmark(name) for name in settings.benchmarks}
    questions = [q for benchmark in benchmarks.values() for q in list(benchmark.load())[: settings.limit]]
    counts = {name: settings.samples or benchmark.samples for name, benchmark in benchmarks.items()}
    rollouts, verdicts = folder / "rollouts", folder / "verdicts"
    tokens = collector.collect(
        questions, lambda q: counts[q.dataset], rollouts, settings.shard_questions, label
    )
    graders = verify_folder(rollouts, collector.format, verdicts, f"{label}, verify")
    splits = {name: benchmark.split for name, benchmark in benchmarks.items()}
    rows = result_rows(rollouts, verdicts, splits)
    write_parquet(folder / ROWS, rows)
    write_json(folder / METRICS, score_table(rows.drop_nulls("correct")))
    return {"tokens": tokens, "verifier": graders, "device": str(collector.device)}


def require_benchmarks(settings: EvalSettings) -> None:
    if not settings.benchmarks:
        raise InputError("no benchmark to evaluate on; name some in eval.benchmarks or with --benchmarks")


def result_rows(rollouts: Path, verdicts: Path, splits: Mapping[str, str]) -> pl.DataFrame:
    """One row per response: what it said, whether it was right, and to which split it belongs."""
    keys = ("dataset", "question_id", "sample")
    graded = pl.concat([pl.read_parquet(shard) for shard in shards(verdicts)])
    sampled = pl.concat([pl.read_parquet(shard) for shard in shards(rollouts)])
    joined = graded.join(
        sampled.select(*keys, "response", "finished", "confidence_entropy"),
        on=keys,
        validate="1:1",
        maintain_order="left",
    )
    return joined.with_columns(split=pl.col("dataset").replace_strict(splits, return_dtype=pl.String))


def read_metrics(folder: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    return metrics
