"""All metrics, in the order in which they are shown.

To add one, write a file with its function and its `Metric`, and a line in `METRICS`; it then appears wherever metrics are
shown. Does not compute anything: `evaluate`, `score` and `bootstrap` do.
"""

from collections.abc import Callable

from calibsft.metrics.calibration import ACCURACY, BRIER, ECE, MEAN_CONFIDENCE, PCE
from calibsft.metrics.diversity import EFFECTIVE_SUPPORT, EXTREME_SHARE, SUPPORT, TOP1, TOP3
from calibsft.metrics.metric import HEADLINE, Metric, PerQuestion, TableFunction, View
from calibsft.metrics.questions import CAP_BRIER
from calibsft.metrics.rank_calibration import RCE, RCE_TIE
from calibsft.metrics.ranking import AUROC, E_AURC
from calibsft.metrics.recalibration import DSC, MCB, UNC
from calibsft.metrics.smooth_calibration import SMOOTH_ECE
from calibsft.metrics.table import FloatArray

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        ACCURACY,
        MEAN_CONFIDENCE,
        AUROC,
        BRIER,
        MCB,
        DSC,
        UNC,
        ECE,
        SMOOTH_ECE,
        PCE,
        CAP_BRIER,
        E_AURC,
        RCE,
        RCE_TIE,
        SUPPORT,
        TOP1,
        TOP3,
        EFFECTIVE_SUPPORT,
        EXTREME_SHARE,
    )
}

TABLE_METRICS: dict[str, TableFunction] = {
    name: metric.of for name, metric in METRICS.items() if not isinstance(metric.of, PerQuestion)
}
QUESTION_METRICS: dict[str, Callable[[FloatArray], FloatArray]] = {
    name: metric.of.of for name, metric in METRICS.items() if isinstance(metric.of, PerQuestion)
}
# Metrics of the rows of several datasets together, by their key in the result.
POOLED_METRICS = {f"{name}_pooled": of for name, of in TABLE_METRICS.items() if METRICS[name].pooled}
# The metrics with intervals and paired differences: those with a good end, and those of the headline.
COMPARED = tuple(
    name
    for name, metric in METRICS.items()
    if metric.interval and (metric.better or metric.views == HEADLINE)
)


def shown_in(view: View) -> tuple[Metric, ...]:
    """The metrics of a view; those of the headline first."""
    shown = (metric for metric in METRICS.values() if view in metric.views)
    return tuple(sorted(shown, key=lambda metric: metric.views != HEADLINE))
