"""Certified coverage over risk budgets, with the line of a perfect ranking.

A column per method, a row per split. Does not certify anything itself: that is `decisions`.
"""

from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.decisions import answered_held_out, perfect_ranking
from calibsft.decisions.held_out import HALVES
from calibsft.decisions.selective import DELTA
from calibsft.report.figures.panels import group_panels, groups_of
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import GREY, Look, shared_legend, short
from calibsft.report.splits import part_of, split_title, splits_of
from calibsft.report.summary import ModelResult, RunSummary
from calibsft.responses.actionable import actionable

RISKS = tuple(hundredth / 100 for hundredth in range(2, 51, 2))
LABEL_CHARACTERS = 24
PERFECT: dict[str, Any] = {"linestyle": "dotted", "linewidth": 1.2}


def draw(summary: RunSummary) -> Figure | None:
    """Mean over random halves with a band of one standard deviation; None without question ids."""
    models = [model for model in summary.models if "question_id" in model.rows.columns]
    if not models:
        return None
    titles = {split: short(split_title(split), LABEL_CHARACTERS).lower() for split in splits_of(models)}
    labels = {split: f"{title}\ncoverage".lstrip() for split, title in titles.items()}
    figure, columns = group_panels(groups_of(models), labels, _curves, 2.1, "risk budget")
    columns[-1][-1].plot([], [], color=GREY, label="perfect ranking, in the model's colour", **PERFECT)
    shared_legend(figure, chain.from_iterable(columns))
    return figure


def _curves(ax: Axes, member: tuple[Look, ModelResult], split: str) -> None:
    look, model = member
    ax.set(xlim=(0, 0.52), ylim=(-0.04, 1.04))
    rows = part_of(model, split)
    if rows.is_empty():
        return
    keys = [name for name in ("dataset", "question_id") if name in rows.columns]
    # The same id in two datasets is two questions.
    questions = rows.select(pl.struct(keys)).to_series()
    shares = answered_held_out(actionable(rows), rows["correct"], questions, RISKS).coverage
    mean, spread = shares.mean(axis=0), shares.std(axis=0)
    low, high = np.clip(mean - spread, 0, 1), np.clip(mean + spread, 0, 1)
    ax.fill_between(RISKS, low, high, color=look.color, alpha=0.15, linewidth=0)
    line = ax.plot(RISKS, mean, color=look.color, linestyle=look.line, linewidth=1.8, label=look.label)[0]
    # Many curves stay at 0: dashed lines are drawn on top, so that solid ones are seen below them.
    line.set(marker=look.marker, markersize=4, markevery=4, zorder=2.1 if look.line == "solid" else 2.2)
    accuracy = float(rows["correct"].sum()) / len(rows)
    best = [perfect_ranking(accuracy, risk) for risk in RISKS]
    ax.plot(RISKS, best, color=look.color, alpha=0.7, **PERFECT)


COVERAGE = Plot(
    "coverage",
    "How much can be answered at a certified error rate",
    "The model answers only where its confidence reaches a threshold, chosen on half of the questions so that the error rate"
    f" among its answers is at most the risk budget with probability {1 - DELTA:.2f} (Clopper-Pearson bounds for 101"
    " thresholds, union bound). A response without a confidence to act on is never answered, as in calibsft certify."
    " Coverage is the share of responses to the other half that are answered: mean over"
    f" {HALVES} random halves, the band is one standard deviation. Dotted: a model of the same accuracy that ranks every"
    " right answer above every wrong one.",
    "evaluated models, with question_id for every response",
    draw,
    by_benchmark=True,
)
