"""Accuracy and ECE over token budgets, a column per method.

Does not cut responses or force answers: that is `evaluation`, with `eval.budgets`.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from calibsft.report.columns import whole
from calibsft.report.figures.panels import group_panels, groups_of
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import Look, shared_legend
from calibsft.report.summary import ModelResult, RunSummary

ACCURACY, ECE = "pass@1", "ece"
ROWS = {ACCURACY: "Pass@1", ECE: "ECE"}
WIDE_RANGE = 4  # from this ratio of the largest to the smallest budget on, the axis is logarithmic
MOST_TICKS = 5


def draw(summary: RunSummary) -> Figure | None:
    """One line per model, with its result without a limit at the right; None where no budget was set."""
    models = [model for model in summary.models if model.budgets is not None]
    if not models:
        return None
    rows = [model.budgets["budget"] for model in models if model.budgets is not None]
    budgets = pl.concat(rows).drop_nulls().unique().sort().to_list()
    curve = partial(_curve, _no_limit(budgets))
    figure, columns = group_panels(groups_of(models), ROWS, curve, 1.9, "token budget")
    for panels in columns:
        _scale(panels[-1], budgets)
    columns[0][list(ROWS).index(ECE)].set_ylim(bottom=0)
    shared_legend(figure, chain.from_iterable(columns))
    return figure


def _curve(no_limit: float, ax: Axes, member: tuple[Look, ModelResult], key: str) -> None:
    """A line through the budgets, and a dotted one from the last budget to the result without a limit."""
    look, model = member
    rows = model.budgets
    assert rows is not None, "only models with budgets are drawn"
    limited, free = rows.drop_nulls("budget").sort("budget"), rows.filter(pl.col("budget").is_null())
    mark: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 4}
    ax.plot(limited["budget"], limited[key], linestyle=look.line, linewidth=1.8, label=look.label, **mark)
    ends = [limited["budget"][-1], no_limit], [limited[key][-1], free[key][0]]
    ax.plot(*ends, linestyle="dotted", linewidth=1.2, **mark)


def _is_wide(budgets: Sequence[int]) -> bool:
    return budgets[-1] >= WIDE_RANGE * budgets[0]


def _no_limit(budgets: Sequence[int]) -> float:
    """The place of results without a limit: a doubling, or an average step, to the right of the last budget."""
    first, last = budgets[0], budgets[-1]
    return 2.0 * last if _is_wide(budgets) or first == last else last + (last - first) / (len(budgets) - 1)


def _scale(ax: Axes, budgets: Sequence[int]) -> None:
    """The horizontal axis, with at most five budgets named: the last one always."""
    if _is_wide(budgets):
        ax.set_xscale("log", base=2)
    named = list(budgets[::-1][:: -(-len(budgets) // MOST_TICKS)])
    places = [*named, _no_limit(budgets)]
    ax.set_xticks(places, [*map(whole, named), "no limit"], rotation=45, ha="right", rotation_mode="anchor")
    ax.xaxis.set_minor_locator(NullLocator())


BUDGETS = Plot(
    "budgets",
    "Fewer tokens to think",
    "Responses are cut at the token budget, and answer and confidence forced; a response that ended within the budget is taken"
    " as it is. Means over the in-distribution benchmarks where there are such, else over all. The dotted line leads to the"
    " result without a limit.",
    "models evaluated under token budgets (eval.budgets, or calibsft eval --budgets)",
    draw,
    by_benchmark=True,
)
