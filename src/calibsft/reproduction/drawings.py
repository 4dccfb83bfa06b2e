"""What figures of the study show: the first training seed of some models, on one benchmark, one split or all."""

import polars as pl

from calibsft.artifacts import read_manifest
from calibsft.report.lineage import Lineage
from calibsft.report.runs import read_evaluation
from calibsft.report.summary import ModelResult, RunSummary, TrainingRun, TrainingSet
from calibsft.report.training import read_training, read_training_set
from calibsft.reproduction.arms import WITH
from calibsft.reproduction.roles import roles
from calibsft.reproduction.study import SPLITS, Pipeline, Study

Rows = dict[str, Pipeline]


def evaluated(study: Study, rows: Rows, part: str = "") -> RunSummary:
    """The evaluations of some models: of a split, of the benchmark with a role, or of all benchmarks."""
    benchmark = "" if part in ("", *SPLITS) else roles(study)[part]
    models = tuple(_model(study, row, pipeline, part, benchmark) for row, pipeline in rows.items())
    return RunSummary("study", models, benchmark=f"{part}: {benchmark}" if benchmark else part.upper())


def _model(study: Study, row: str, pipeline: Pipeline, part: str, benchmark: str) -> ModelResult:
    found = read_evaluation(study.model(*pipeline).folders("evaluation")[0], row)
    kept = pl.lit(True)
    if part in SPLITS:
        kept = pl.col("split") == part
    elif benchmark:
        kept = pl.col("dataset") == benchmark
    budgets = found.benchmark_budgets.get(benchmark, found.budgets)
    return ModelResult(
        row,
        found.rows.filter(kept),
        method=row.removesuffix(WITH),
        calibrated=row.endswith(WITH),
        budgets=budgets,
    )


def trained(study: Study, rows: Rows) -> RunSummary:
    """The trainings by RL of some models."""
    runs = [_training(study, row, pipeline) for row, pipeline in rows.items()]
    return RunSummary("study", (), training=tuple(run for run in runs if run is not None))


def _training(study: Study, row: str, pipeline: Pipeline) -> TrainingRun | None:
    folder = study.model(*pipeline).folders("training")[0]
    return read_training(folder, read_manifest(folder), Lineage(tuple(read_manifest(folder)["lineage"])))


def training_sets(study: Study, rows: Rows) -> RunSummary:
    """The training sets of some fine-tuned models."""
    found: list[TrainingSet] = []
    for row, pipeline in rows.items():
        folder = study.model(*pipeline).folders("data")[0]
        found.append(read_training_set(folder, read_manifest(folder), row))
    return RunSummary("study", (), training_sets=tuple(found))
