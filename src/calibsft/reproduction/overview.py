"""The verdicts at a glance: a mark for each claim, a row for each experiment."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from calibsft.report.figures import KINDS, Shown, show_drawn
from calibsft.report.figures.style import BLUE, GREY, VERMILLION, short
from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.verdicts import Outcome, Verdict

# The markers differ too, for readers and printers without colour.
LOOKS: dict[Outcome, dict[str, Any]] = {
    Outcome.HOLDS: {"marker": "o", "color": BLUE},
    Outcome.FAILS: {"marker": "X", "color": VERMILLION},
    Outcome.UNDECIDED: {"marker": "o", "facecolors": "none", "edgecolors": GREY},
    Outcome.UNTESTABLE: {"marker": "_", "color": GREY},
}
LONGEST_TITLE = 60
WIDTH_INCHES, ROW_INCHES, MARGIN_INCHES = 8.4, 0.27, 0.6


def overview(verdicts: Sequence[Verdict], experiments: Sequence[Experiment]) -> Shown | None:
    """The figure; None if no claim is about these experiments."""
    found = {
        one.title: [verdict.outcome for verdict in verdicts if verdict.claim.experiment == one.name]
        for one in experiments
    }
    rows = {title: outcomes for title, outcomes in found.items() if outcomes}
    return show_drawn(
        "verdicts",
        "The verdicts at a glance",
        "Each mark is a claim of the paper, in the order of the tables.",
        partial(_draw, rows),
        tuple(KINDS),
    )


def _draw(rows: Mapping[str, Sequence[Outcome]]) -> Figure | None:
    if not rows:
        return None
    height = ROW_INCHES * len(rows) + MARGIN_INCHES
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    ax = figure.subplots()
    for outcome, look in LOOKS.items():
        places = list(_places(rows.values(), outcome))
        ax.scatter(
            [x for x, _ in places],
            [y for _, y in places],
            s=70,
            label=f"{outcome.value} ({len(places)})",
            **look,
        )
    ax.set_yticks(range(len(rows)), [short(title, LONGEST_TITLE) for title in rows])
    ax.set(xticks=[], xlim=(-0.5, max(map(len, rows.values())) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(LOOKS))
    return figure


def _places(rows: Iterable[Sequence[Outcome]], outcome: Outcome) -> Iterable[tuple[int, int]]:
    """Where the marks of one outcome stand: the place in the row, and the row."""
    return ((x, y) for y, row in enumerate(rows) for x, one in enumerate(row) if one is outcome)
