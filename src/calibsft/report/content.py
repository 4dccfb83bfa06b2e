"""What a report says, in reading order, before it is written as HTML or Markdown.

The sentences claim no more than the figures carry: see "How to read this". Does not write files, escape text for
a format or compute a metric.
"""

import base64
from dataclasses import dataclass

import polars as pl

from calibsft.errors import InputError
from calibsft.metrics import ECE_CONVENTION, score_table
from calibsft.report import dynamics, figures, tables
from calibsft.report.columns import whole
from calibsft.report.markup import Table
from calibsft.report.summary import RunSummary
from calibsft.text import printable

LEAD = "Each model states how sure it is of every answer; this page compares that with how often it is right."
READING = (
    "Look first at AUROC (does confidence tell right answers from wrong ones; 0.5 is chance) and at the ECE"
    " averaged over benchmarks.",
    "Do not judge by pooled ECE alone: a model that always states its overall accuracy has a pooled ECE of 0"
    " and says nothing about any single answer.",
    "Effective support has no arrow: a model that uses many confidence values is not better for that alone.",
    "This is one run: compare several seeds before you trust a small difference.",
)
RL_READING = (
    "An arrow is a training: CalibSFT→RLCR is the CalibSFT model trained further with RLCR. Compare first the"
    " rows of one method.",
)
MEASURES = (
    "Means over benchmarks except pooled ECE. A confidence that cannot be read counts as 0; Unreadable is the"
    f" share of such responses. ECE: {ECE_CONVENTION}. ↑ more is better, ↓ less is better; bold is best."
)
SMOOTHING = f"rolling mean over about a tenth of the steps, at most {dynamics.LONGEST_WINDOW}, centred"
CALIBRATION_CAPTION = (
    "Measured at each rollout step on the responses generated for training, not on held-out questions. Faint:"
    f" every step; strong: {SMOOTHING}."
)
EXPLORATION_CAPTION = (
    "Left axis: distinct confidence values among the responses to one question, mean over the questions of a"
    " rollout step. Right axis: entropy of the confidence tokens. Upper row without CalibSFT, lower row after"
    f" it; all panels on the same scales. Strong: {SMOOTHING}. RL can reward only what is sampled, but more"
    " values are not better for that alone."
)
HELD_OUT_CAPTION = (
    "Means over the in-distribution benchmarks, at the steps where the model was evaluated; lines only join"
    " the points."
)
GRADIENT_CAPTION = (
    "Measured on the models that RL starts from, before any training. Each point is a confidence value of the format: how"
    " likely the model is to state it, and the length of its part of the expected gradient of the Brier reward in the"
    " weights, as a share of all. On the dashed line the two are equal: what is hardly ever said hardly learns"
    " (Proposition 1 of the paper). Responses per model: "
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure with its file name, heading and the sentence that says what to see in it."""

    name: str
    title: str
    caption: str
    svg: str

    @property
    def data_uri(self) -> str:
        encoded = base64.b64encode(self.svg.encode()).decode("ascii")
        return f"data:image/svg+xml;base64,{encoded}"


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of the page in reading order, shared by both formats."""

    title: str
    reading: tuple[str, ...]
    headline: list[Table]
    figures: list[Shown]
    details: list[Table]
    command: str
    recipe: str


def build_content(summary: RunSummary) -> Content:
    """Turn a run's results into tables, figures and texts; refuses a run without an evaluated model."""
    if not summary.models:
        raise InputError(f"run '{summary.name}' has no evaluated model; run `calibsft eval` first")
    labels = [model.label for model in summary.models]
    scores = [score_table(model.rows) for model in summary.models]
    details = [
        tables.benchmark_table(labels, scores, _split_of(summary)),
        tables.excluded_table(labels, scores),
        tables.reasons_table(summary.models),
        tables.filter_table(summary.filtered),
        tables.cost_table(summary.costs),
    ]
    return Content(
        title=printable(summary.name),
        reading=(*READING, *(RL_READING if summary.training else ())),
        headline=tables.headline_tables(labels, scores),
        figures=_figures(summary),
        details=[table for table in details if table is not None],
        command=printable(summary.command),
        recipe=printable(summary.recipe_yaml, keep="\n").rstrip(),
    )


def _split_of(summary: RunSummary) -> dict[str, str]:
    """Each benchmark's split, in-distribution ones first, by name within a split."""
    rows = pl.concat([model.rows.select("split", "dataset") for model in summary.models])
    return {name: split for split, name in rows.unique().sort("split", "dataset").iter_rows()}


def _figures(summary: RunSummary) -> list[Shown]:
    shown = [
        Shown(
            "confidence",
            "What the models say",
            "Share of responses at each confidence, right and wrong ones stacked. A model that knows what it"
            " knows has the wrong answers on the left. Unreadable confidences are left out.",
            figures.confidence_distribution(summary.models),
        ),
        Shown(
            "reliability",
            "Is it as often right as it says",
            "Accuracy of the responses in each confidence bin, all benchmarks together; on the dashed line"
            " confidence and accuracy agree. Bins with few responses (lower panel) are uncertain.",
            figures.reliability_diagrams(summary.models),
        ),
    ]
    shown += _training_figures(summary)
    if summary.targets is not None:
        caption = "Training responses per target confidence. Balancing draws equally many for each target."
        svg = figures.target_histogram(summary.targets)
        shown.append(Shown("targets", "Confidence targets for CalibSFT", caption, svg))
    return shown


def _training_figures(summary: RunSummary) -> list[Shown]:
    """The figures of RL, none for a run without it."""
    runs, shares = summary.training, summary.gradients
    shown: list[Shown] = []
    if runs:
        svg = dynamics.calibration_curves(runs)
        shown.append(Shown("calibration-curves", "Calibration during RL", CALIBRATION_CAPTION, svg))
        svg = dynamics.exploration_curves(runs)
        title = "How many confidence values RL tries"
        shown.append(Shown("exploration-curves", title, EXPLORATION_CAPTION, svg))
    held_out = dynamics.held_out_curves(runs)
    if held_out is not None:
        shown.append(Shown("held-out-curves", "Held-out questions during RL", HELD_OUT_CAPTION, held_out))
    if shares:
        caption = f"{GRADIENT_CAPTION}{whole(min(share.contexts for share in shares))}."
        title, svg = "Which confidence values get a gradient", dynamics.gradient_shares(shares)
        shown.append(Shown("gradient-shares", title, caption, svg))
    return shown
