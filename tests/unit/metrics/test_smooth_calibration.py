"""Smooth ECE: against its definition by integration, against relplot, and where it is known."""

from collections.abc import Callable

import numpy as np
import pytest

from calibsft.metrics import ConfidenceTable, accuracy, mean_confidence, smooth_ece
from calibsft.metrics.smooth_calibration import FINEST, error_at, waves_of

Draw = Callable[[np.random.Generator, int], np.ndarray]
STATED: dict[str, Draw] = {
    "hundredths": lambda rng, n: rng.integers(1, 100, n) / 100,
    "with both ends": lambda rng, n: rng.integers(0, 11, n) / 10,
    "high": lambda rng, n: np.clip(np.round(rng.beta(9, 1.2, n), 2), 0.01, 0.99),
    "two values": lambda rng, n: rng.choice([0.3, 0.9], n),
    "all different": lambda rng, n: rng.random(n),
}
TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda c: c,
    "too sure": lambda c: 0.5 + 0.6 * (c - 0.5),
    "unrelated": lambda c: np.full_like(c, 0.4),
}
CASES = [(stated, truth, n) for stated in STATED for truth in TRUTHS for n in (60, 1000)]
EVERY_CASE = pytest.mark.parametrize(("stated", "truth", "n"), CASES)


def drawn(stated: str, truth: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    confidence = STATED[stated](rng, n)
    return confidence, rng.random(n) < TRUTHS[truth](confidence)


def by_definition(table: ConfidenceTable, width: float, points: int = 2001) -> float:
    """The integral of the spread differences, with the mirror images of the Gaussian one by one."""
    t = np.linspace(0, 1, points)[:, None]
    gap = (table.n * table.values - table.k) / table.responses
    curve = np.zeros(points)
    for image in range(-3, 4):
        for mirrored in (table.values, -table.values):
            away = (t - mirrored - 2 * image) / width
            curve += np.exp(-(away**2) / 2) @ gap / (width * np.sqrt(2 * np.pi))
    return float(np.trapezoid(np.abs(curve), t[:, 0]))


@EVERY_CASE
def test_the_error_equals_the_width_of_the_kernel_that_it_is_taken_with(
    stated: str, truth: str, n: int
) -> None:
    table = ConfidenceTable.from_rows(*drawn(stated, truth, n))
    found = smooth_ece(table)
    assert by_definition(table, found) == pytest.approx(found, abs=2e-5)


@EVERY_CASE
def test_smooth_ece_is_that_of_relplot_but_for_its_grid(stated: str, truth: str, n: int) -> None:
    """relplot halves the step of its width ten times, to 1/1024, and takes the end of the last step.

    It puts confidences on a grid of 1,000 steps, on which it loses up to half of what is stated
    within a step of 0 or 1: such confidences are moved inside here. And its kernel ends at a
    distance of 1/2, which only kernels wider than 0.1 notice. With more than its 200 points to sum
    over, the errors at one width are the same but for the grid.
    """
    relplot = pytest.importorskip("relplot")
    config = pytest.importorskip("relplot.config")
    confidence, correct = drawn(stated, truth, n)
    confidence = np.clip(confidence, 0.002, 0.998)
    table = ConfidenceTable.from_rows(confidence, correct)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "smECE_mesh_pts", 8001)
        for width in (0.02, 0.05, 0.1):
            theirs = relplot.smECE_sigma(confidence, correct.astype(float), width)
            assert error_at(waves_of(table), width) == pytest.approx(theirs, abs=2e-4)
        theirs = relplot.smECE(confidence, correct.astype(float))
    ours = smooth_ece(table)
    assert ours > 0.1 or ours - 2 / 1024 <= theirs <= ours + 2e-4


def test_relplot_counts_half_of_what_is_stated_at_one() -> None:
    relplot = pytest.importorskip("relplot")
    confidence, correct = np.repeat([0.5, 1.0], 50), np.tile([1, 1, 1, 1, 0], 20)
    correct[:50] = np.arange(50) % 2
    table = ConfidenceTable.from_rows(confidence, correct)
    assert smooth_ece(table) == pytest.approx(0.1, abs=1e-9)
    assert relplot.smECE(confidence, correct.astype(float)) == pytest.approx(0.1 * 2 / 3, abs=0.002)


def test_a_model_that_is_too_sure_everywhere_gets_how_much() -> None:
    confidence, correct = np.repeat([0.6, 0.8, 1.0], 10), np.tile(np.arange(10) < 5, 3)
    table = ConfidenceTable.from_rows(confidence, correct)
    assert smooth_ece(table) == pytest.approx(mean_confidence(table) - accuracy(table), abs=1e-9)


@pytest.mark.parametrize(("stated", "right", "expected"), [(1.0, 0, 1.0), (0.0, 1, 1.0), (1.0, 1, 0.0)])
def test_the_extremes_are_reached(stated: float, right: int, expected: float) -> None:
    table = ConfidenceTable.from_rows(np.full(4, stated), np.full(4, right))
    assert smooth_ece(table) == pytest.approx(expected, abs=1e-9)


def test_errors_that_bins_hide_or_split_are_seen_alike() -> None:
    """0.299 and 0.301 are in two bins of ECE, 0.301 and 0.303 in one: no difference here."""
    correct = np.repeat([1, 0], 50)
    found = [
        smooth_ece(ConfidenceTable.from_rows(np.repeat(pair, 50), correct))
        for pair in ([0.299, 0.301], [0.301, 0.303])
    ]
    assert found[0] == pytest.approx(found[1], abs=0.003)


def test_no_kernel_is_narrower_than_the_finest() -> None:
    values = np.array([0.25, 0.5, 0.75])
    table = ConfidenceTable(values, np.array([40_000] * 3), np.array([10_001, 19_998, 30_001]))
    assert 0 < smooth_ece(table) < FINEST / 10
    assert smooth_ece(ConfidenceTable(values, np.array([4, 4, 4]), np.array([1, 2, 3]))) == 0
