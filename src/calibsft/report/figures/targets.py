"""Target distribution: training responses per target confidence, before and after balancing."""

import re
from collections.abc import Iterable
from itertools import chain, pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.report.columns import whole
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, panel_width, short
from calibsft.report.summary import RunSummary, TrainingSet

SETS_PER_ROW = 3


def draw(summary: RunSummary) -> Figure | None:
    """Two histograms for every training set, each on its own vertical scale; None for a run without CalibSFT data."""
    sets = [found for found in summary.training_sets if not found.imitated]
    if not sets:
        return None
    columns = min(len(sets), SETS_PER_ROW)
    rows = -(-len(sets) // columns)
    figure = Figure(figsize=(panel_width(columns, 8.4) * columns, 3.9 * rows), layout="constrained")
    axes = figure.subplots(2 * rows, columns, squeeze=False)
    panels = [(upper, lower) for row in range(0, 2 * rows, 2) for upper, lower in axes[row : row + 2].T]
    for (upper, lower), training_set in zip(panels, sets, strict=False):
        _draw_set(upper, lower, training_set, len(sets) > 1)
    for ax in chain.from_iterable(panels[len(sets) :]):
        ax.set_visible(False)
    return figure


def _draw_set(upper: Axes, lower: Axes, training_set: TrainingSet, named: bool) -> None:
    parts = {"Before balancing": training_set.before, "After balancing": training_set.after}
    place = _positions(text for counts in parts.values() for text in counts)
    upper.sharex(lower)
    for ax, (title, counts) in zip((upper, lower), parts.items(), strict=True):
        ax.bar([place[text] for text in counts], list(counts.values()), _bar_width(place), color=BLUE)
        ax.set_title(f"{title}: {whole(sum(counts.values()))} responses", loc="left")
        ax.set_ylabel("responses")
    if named:
        upper.set_title(f"{short(training_set.label)}\n{upper.get_title('left')}", loc="left")
    if not _are_numbers(place):
        lower.set_xticks(list(place.values()), [short(text) for text in place])
    upper.tick_params(labelbottom=False)
    lower.set_xlabel("target confidence")


def _positions(texts: Iterable[str]) -> dict[str, float]:
    """The place of each target: its number, or the order of appearance if any is a word such as "low"."""
    distinct = list(dict.fromkeys(texts))
    if _are_numbers(distinct):
        return {text: float(text) for text in distinct}
    return {text: float(index) for index, text in enumerate(distinct)}


def _are_numbers(texts: Iterable[str]) -> bool:
    return all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) for text in texts)


def _bar_width(place: dict[str, float]) -> float:
    ordered = sorted(set(place.values()))
    return 0.9 * min((high - low for low, high in pairwise(ordered)), default=0.1)


TARGETS = Plot(
    "targets",
    "Confidence targets for CalibSFT",
    "Training responses per target confidence. Balancing draws equally many for each target.",
    "a training set that CalibSFT's targets were built for",
    draw,
)
