"""What a report says, in reading order, before it is written as HTML or Markdown.

The sentences claim no more than the numbers support: see "How to read this". Does not write files, escape text for
a format or compute a metric.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from calibsft.errors import InputError
from calibsft.metrics import ECE_CONVENTION, Scores, score_table
from calibsft.progress import Progress
from calibsft.report import tables
from calibsft.report.columns import COMPARED
from calibsft.report.comparisons import difference_tables, estimator_table, prior_table
from calibsft.report.figures import FIGURES, Shown, show_all
from calibsft.report.inspector import Packed, pack
from calibsft.report.markup import Table
from calibsft.report.seed_tables import spread_table
from calibsft.report.splits import shown_splits
from calibsft.report.summary import RunSummary, SeedResult
from calibsft.text import printable

LEAD = "Each model states how sure it is of every answer; this page compares that with how often it is right."
READING = (
    "Look first at AUROC (does confidence tell right answers from wrong ones; 0.5 is chance) and at the ECE"
    " averaged over benchmarks.",
    "Do not judge by pooled ECE alone: a model that always states its overall accuracy has a pooled ECE of 0"
    " and says nothing about any single answer.",
    "Effective support has no arrow: a model that uses many confidence values is not better for that alone.",
    "Intervals tell how far a figure would move with other questions of the same kind. They know nothing of other"
    " trainings: train with several seeds (calibsft run … --seeds 0,1,2) before you trust a small difference.",
)
RL_READING = (
    "An arrow is a training: CalibSFT→RLCR is the CalibSFT model trained further with RLCR. Compare first the"
    " rows of one method.",
)
SEED_READING = (
    "± is the standard deviation over training seeds (n − 1). Data and evaluation are the same for all of them, so that they"
    " differ by their trainings alone; a model without ± was not trained here.",
)
TRAINING_READING = (
    "Everything here is of the responses that a training was rewarded for, while it went on. Evaluate the trained model"
    " (calibsft eval) before you judge it.",
)
MEASURES = (
    "Means over benchmarks except pooled ECE; below a figure its 95 % interval by drawing questions. A confidence that"
    " cannot be read counts as 0; Unreadable is the share of such responses, Malformed that of responses which do not"
    " keep to the format, readable or not."
    f" ECE: {ECE_CONVENTION}. ↑ more is better, ↓ less is better; bold is best, among models"
    " with readable confidences in more than half of their responses."
)


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of the page in reading order, shared by both formats."""

    title: str
    reading: tuple[str, ...]
    headline: list[Table]
    measures: str
    comparisons: list[Table]
    figures: list[Shown]
    details: list[Table]
    responses: Packed | None
    command: str
    recipe: str


def build_content(summary: RunSummary, pictures: Sequence[str] = ("svg",)) -> Content:
    """Turn a run's results into tables, figures and texts; refuses a run without an evaluated or trained model.

    Figures are drawn as each kind of `pictures`; the page needs SVG.
    """
    if not summary.models and not summary.training:
        raise InputError(f"run '{summary.name}' has no evaluated model; run `calibsft eval` first")
    labels = [model.label for model in summary.models]
    scores: list[Scores] = []
    with Progress("report", len(labels) + len(FIGURES) + 2, "parts") as progress:
        for model in summary.models:
            # Without question ids there are no intervals.
            scores.append(score_table(model.rows, "question_id" in model.rows.columns, COMPARED))
            progress.advance(1, note="scores")
        compared = [*difference_tables(summary.models, shown_splits(scores)), prior_table(summary.models)]
        progress.advance(1, note="comparisons")
        figures = show_all(summary, pictures, lambda: progress.advance(1, note="figures"))
        responses = pack(summary.responses)
        progress.advance(1, note="responses")
    return Content(
        title=printable(summary.name),
        reading=_reading(summary),
        headline=_headline(summary, labels, scores),
        measures=MEASURES if scores else "",
        comparisons=[table for table in compared if table is not None],
        figures=figures,
        details=_details(summary, labels, scores),
        responses=responses,
        command=printable(summary.command),
        recipe=printable(summary.recipe_yaml, keep="\n").rstrip(),
    )


def _headline(summary: RunSummary, labels: Sequence[str], scores: Sequence[Scores]) -> list[Table]:
    """What is read first: models over their seeds where they have several, then every model; or the trainings alone."""
    if not scores:
        return [tables.training_table(summary.training)]
    distinct = {run.label: run.distinct_values for run in summary.training}
    results = [
        SeedResult(model.seed, model.title or model.label, score, distinct.get(model.label))
        for model, score in zip(summary.models, scores, strict=True)
    ]
    spreads = [spread_table(results, split) for split in shown_splits(scores)]
    return [*(table for table in spreads if table), *tables.headline_tables(labels, scores)]


def _reading(summary: RunSummary) -> tuple[str, ...]:
    if not summary.models:
        return TRAINING_READING
    several = any(model.seed is not None for model in summary.models)
    return (*READING, *(SEED_READING if several else ()), *(RL_READING if summary.training else ()))


def _details(summary: RunSummary, labels: Sequence[str], scores: Sequence[Scores]) -> list[Table]:
    found = [tables.filter_table(summary.training_sets), tables.cost_table(summary.costs)]
    if scores:
        found = [
            *tables.further_tables(labels, scores),
            tables.benchmark_table(labels, scores, _split_of(summary)),
            estimator_table(summary.models),
            tables.excluded_table(labels, scores),
            tables.reasons_table(summary.models),
            *found,
        ]
    return [table for table in found if table is not None]


def _split_of(summary: RunSummary) -> dict[str, str]:
    """Each benchmark's split, in-distribution ones first, by name within a split; empty where there are none."""
    none = pl.lit("").alias("split")
    rows = pl.concat(
        model.rows.select("split" if "split" in model.rows.columns else none, "dataset")
        for model in summary.models
    )
    return {name: part for part, name in rows.unique().sort("split", "dataset").iter_rows()}
