"""What a metric is: its function of the counted responses, and how it is shown.

JSON, tables, intervals, model cards and `calibsft ls metrics` read these records, so a metric is described once. Does not
list the metrics: that is `registry`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import Literal, TypeAlias, get_args

from calibsft.metrics.table import ConfidenceTable, FloatArray

Better: TypeAlias = Literal["higher", "lower"]
View: TypeAlias = Literal["terminal", "report", "card"]
TableFunction: TypeAlias = Callable[[ConfidenceTable], float | None]

HEADLINE: frozenset[View] = frozenset(get_args(View))
ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}


def fraction(value: float) -> str:
    """Three decimals."""
    return f"{value:.3f}"


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def one_decimal(value: float) -> str:
    """One decimal, thousands separated."""
    return f"{value:,.1f}"


@dataclass(frozen=True, slots=True)
class Column:
    """A number that tables show.

    Attributes
    ----------
    name : its key in results.
    title : what tables call it.
    better : which end is good; None if neither is.
    write : how a report writes it.
    short : its title in a terminal, if that differs.
    """

    name: str
    title: str
    better: Better | None = None
    write: Callable[[float], str] = fraction
    short: str = ""

    @property
    def header(self) -> str:
        """The title, with an arrow towards the good end."""
        return self.title + ARROWS[self.better]

    def best(self, values: Sequence[float]) -> float | None:
        """The best of some values; None if neither end is good."""
        if self.better is None:
            return None
        return max(values) if self.better == "higher" else min(values)


@dataclass(frozen=True, slots=True)
class PerQuestion:
    """A mean over questions of a function of each question's gap: mean confidence minus success rate."""

    of: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Column):
    """A metric of one set of responses.

    JSON, CSV, Markdown and `calibsft ls metrics` show every metric; a report shows those without a view under "Further
    metrics".

    Attributes
    ----------
    of : a function of the confidence table, which returns None if there is no value; or `PerQuestion`. The first line of
        its docstring describes the metric in lists.
    views : where else it is shown: in the terminal, in the first tables of a report, on model cards. `HEADLINE` is all.
    bounds : the smallest and the largest value that it can take; intervals end there.
    interval : the scale on which intervals are symmetric; None if draws of questions give no valid interval.
    pooled : show means over datasets beside the value of all their rows together.
    """

    of: TableFunction | PerQuestion
    views: frozenset[View] = frozenset()
    bounds: tuple[float, float] = (0.0, 1.0)
    interval: Literal["plain", "log"] | None = "plain"
    pooled: bool = False

    @property
    def description(self) -> str:
        """One sentence about the metric."""
        function = self.of.of if isinstance(self.of, PerQuestion) else self.of
        return (getdoc(function) or "").partition("\n")[0].rstrip(".")
