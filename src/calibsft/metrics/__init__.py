"""How good stated confidences are: calibration, ranking and diversity, from arrays, tables or files.

Everything here depends on (confidence, correct) pairs and never on their order. Does not read model text, grade answers
or plot: those are `responses`, `verify` and `report`.
"""

from calibsft.metrics.calibration import (
    ReliabilityBin,
    accuracy,
    brier,
    expected_calibration_error,
    mean_confidence,
    reliability_bins,
)
from calibsft.metrics.calibration_check import calibration_check
from calibsft.metrics.diversity import (
    effective_support,
    extreme_share,
    share_below_half,
    support,
    top1,
    top3,
)
from calibsft.metrics.evaluate import ECE_CONVENTION, evaluate
from calibsft.metrics.files import score_file
from calibsft.metrics.metric import HEADLINE, Metric
from calibsft.metrics.ranking import auroc
from calibsft.metrics.recalibration import discrimination, miscalibration, recalibrated, uncertainty
from calibsft.metrics.registry import METRICS
from calibsft.metrics.result import (
    MEAN_OVER_DATASETS,
    CalibrationCheck,
    Differences,
    Means,
    Metrics,
    Scores,
)
from calibsft.metrics.score import score_table
from calibsft.metrics.smooth_calibration import smooth_ece
from calibsft.metrics.table import ConfidenceTable

__all__ = [
    "ECE_CONVENTION",
    "HEADLINE",
    "MEAN_OVER_DATASETS",
    "METRICS",
    "CalibrationCheck",
    "ConfidenceTable",
    "Differences",
    "Means",
    "Metric",
    "Metrics",
    "ReliabilityBin",
    "Scores",
    "accuracy",
    "auroc",
    "brier",
    "calibration_check",
    "discrimination",
    "effective_support",
    "evaluate",
    "expected_calibration_error",
    "extreme_share",
    "mean_confidence",
    "miscalibration",
    "recalibrated",
    "reliability_bins",
    "score_file",
    "score_table",
    "share_below_half",
    "smooth_ece",
    "support",
    "top1",
    "top3",
    "uncertainty",
]
