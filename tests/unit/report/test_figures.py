"""Figures show the numbers of `metrics` and `decisions`, in two themes, as the same bytes each time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy.stats import pearsonr, spearmanr

from calibsft.decisions import answered_held_out, perfect_ranking
from calibsft.metrics import (
    ConfidenceTable,
    discrimination,
    expected_calibration_error,
    miscalibration,
    recalibrated,
    reliability_bins,
    uncertainty,
)
from calibsft.metrics.calibrated_outcomes import consistency_band
from calibsft.metrics.calibration_check import one_response_each
from calibsft.report.figures import FIGURES, THEMES, confidence, reliability, render, show_all
from calibsft.report.figures.coverage import RISKS
from calibsft.report.figures.panels import LOOKS, UNRELATED, groups_of
from calibsft.report.figures.plot import KINDS, show
from calibsft.report.figures.style import (
    BLUE,
    DARK,
    GREEN,
    LIGHT,
    ORANGE,
    PAGE_INCHES,
    PURPLE,
    VERMILLION,
    Theme,
)
from calibsft.report.summary import ModelResult, RunSummary, TrainingSet

DATASETS = {"aime": "id", "gsm8k": "id", "math": "id", "drop": "ood", "nq": "ood", "popqa": "ood"}
# How a reader without green or red cones sees linear RGB (Machado, Oliveira and Fernandes, 2009).
COLOR_BLIND = {
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}


def rows_of(seed: int = 0, questions: int = 40, samples: int = 2, **columns: Any) -> pl.DataFrame:
    """Responses to six benchmarks that get harder, by a model that is right as often as it says."""
    random, each = np.random.default_rng(seed), questions * samples
    ease = np.repeat(np.linspace(0.9, 0.3, len(DATASETS)), each)
    stated = np.round(np.clip(random.normal(ease, 0.2), 0, 1), 2)
    names = np.repeat(list(DATASETS), each)
    frame = pl.DataFrame(
        {
            "dataset": names,
            "split": [DATASETS[name] for name in names],
            "question_id": [str(place // samples % questions) for place in range(len(names))],
            "confidence": stated,
            "correct": random.random(len(names)) < stated,
        }
    )
    return frame.with_columns(**columns)


def summary_of(*models: ModelResult, **parts: Any) -> RunSummary:
    return replace(RunSummary("run", models, None, {}, (), "", ""), **parts)


def drawn(name: str, *models: ModelResult, theme: Theme = LIGHT, **parts: Any) -> Figure | None:
    with rc_context(theme.settings):
        return FIGURES[name].draw(summary_of(*models, **parts))


def svg(name: str, *models: ModelResult, **parts: Any) -> str:
    pictures = render(FIGURES[name], summary_of(*models, **parts), LIGHT, ["svg"])
    assert pictures is not None
    return pictures["svg"].decode()


def panels(figure: Figure | None) -> list[Axes]:
    assert figure is not None
    return [ax for ax in figure.axes if ax.get_visible()]


def line(ax: Axes, label: str) -> tuple[list[float], list[float]]:
    (found,) = [one for one in ax.get_lines() if one.get_label() == label]
    return list(found.get_xdata()), list(found.get_ydata())


def legend(figure: Figure | None) -> list[str]:
    assert figure is not None
    return [text.get_text() for text in figure.legends[0].get_texts()]


def budgets(*points: tuple[int | None, float, float]) -> pl.DataFrame:
    return pl.DataFrame(
        points, schema={"budget": pl.Int64, "pass@1": pl.Float64, "ece": pl.Float64}, orient="row"
    )


ROWS = rows_of()
TARGETS = (TrainingSet("Base", {"low": 3, "high": 5}, {"low": 3, "high": 3}, {}),)
MODEL = ModelResult("Base", ROWS)
BASE = replace(MODEL, calibrated=False, budgets=budgets((16, 0.2, 0.5), (64, 0.3, 0.4), (None, 0.5, 0.3)))
TUNED = ModelResult(
    "CalibSFT",
    rows_of(1),
    calibrated=True,
    budgets=budgets((64, 0.35, 0.2), (16, 0.25, 0.3), (None, 0.55, 0.1)),
)


# Themes and files


@pytest.mark.parametrize("name", THEMES)
def test_text_and_marks_stand_out_from_the_page(name: str) -> None:
    theme = THEMES[name]
    assert contrast(theme.text, theme.page) >= 7
    assert min(contrast(color, theme.page) for color in theme.palette) >= 3


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("sight", COLOR_BLIND)
def test_colours_that_meet_in_a_figure_differ_to_colour_blind_readers(name: str, sight: str) -> None:
    palette = {f"C{place}": color for place, color in enumerate(THEMES[name].palette)}
    for one, other in ((BLUE, ORANGE), (BLUE, VERMILLION), (GREEN, PURPLE)):
        seen = [np.array(COLOR_BLIND[sight]) @ linear(palette[color]) for color in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > 0.15, (one, other)


def test_what_stands_in_one_panel_differs_in_line_or_marker_too() -> None:
    for one, other in combinations([look[1:] for look in UNRELATED], 2):
        assert one != other
    assert len({(look.line, look.marker) for look in LOOKS.values()}) == len(LOOKS)
    hatches = {bar.get_hatch() for bar in panels(drawn("confidence", MODEL))[0].patches}
    assert len(hatches) == 2


def linear(color: str) -> np.ndarray:
    values = np.array(to_rgb(color))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The ratio of luminances that the web's guidelines ask to be 3 for marks and 4.5 for text."""
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_a_figure_is_the_same_in_both_themes_but_for_its_colours() -> None:
    light, dark = (
        render(FIGURES["coverage"], summary_of(BASE, TUNED), theme, ["svg"])["svg"].decode().lower()
        for theme in (LIGHT, DARK)
    )
    for place, color in enumerate(LIGHT.palette):
        assert (color.lower() in light) == (DARK.palette[place].lower() in dark)
    assert LIGHT.text in light and LIGHT.text not in dark and DARK.text in dark
    assert re.findall(r"<text[^>]*>([^<]*)", light) == re.findall(r"<text[^>]*>([^<]*)", dark)


def test_the_same_run_gives_the_same_bytes_in_every_theme_and_kind() -> None:
    shuffled = [
        replace(model, rows=model.rows.sample(fraction=1, shuffle=True, seed=3)) for model in (BASE, TUNED)
    ]
    for name in ("confidence", "reliability-curve", "coverage", "correlation", "budgets"):
        first, second = (
            show(FIGURES[name], summary_of(*models), list(KINDS)) for models in ((BASE, TUNED), shuffled)
        )
        assert first is not None and first == second
        assert [file for file, _ in first.files()] == [
            f"{name}.svg", f"{name}.png", f"{name}-dark.svg", f"{name}-dark.png"
        ]  # fmt: skip


def test_svg_has_no_background_and_png_the_page_as_background() -> None:
    for theme in THEMES.values():
        pictures = render(FIGURES["targets"], summary_of(training_sets=TARGETS), theme, ["png", "svg"])
        assert pictures is not None
        assert f"fill: {theme.page}" not in pictures["svg"].decode()
        corner = imread(BytesIO(pictures["png"]))[0, 0]
        assert corner[:3].tolist() == pytest.approx(to_rgb(theme.page), abs=0.002) and corner[-1] == 1


def test_drawing_changes_no_setting_of_matplotlib() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    show_all(summary_of(BASE))
    assert dict(matplotlib.rcParams) == before


def test_figures_without_anything_to_show_are_left_out() -> None:
    bare = ModelResult("x", ROWS.select("confidence", "correct"))
    assert [shown.name for shown in show_all(summary_of(bare))] == [
        "confidence",
        "reliability",
        "reliability-curve",
    ]
    assert show_all(summary_of()) == []


def test_every_figure_says_what_it_shows_and_what_it_needs() -> None:
    for name, plot in FIGURES.items():
        assert plot.name == name and plot.title and plot.caption.endswith(".") and plot.needs


# Confidence and reliability


def counted(model: ModelResult) -> ConfidenceTable:
    rows = model.rows.with_columns(pl.col("confidence").fill_null(0.0))
    return ConfidenceTable.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy())


UNREAD = ModelResult(
    "Base", ROWS.with_columns(confidence=pl.when(pl.col("confidence") > 0.2).then("confidence"))
)


def test_reliability_bars_are_the_bins_of_the_ece_in_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    heights: list[list[float]] = []
    monkeypatch.setattr(reliability, "bars", lambda _ax, _left, height, *_: heights.append(height))
    upper, _ = panels(drawn("reliability", UNREAD))
    table = counted(UNREAD)
    filled = [part for part in reliability_bins(table) if part.count]
    assert heights == [[part.accuracy for part in filled], [part.count for part in filled]]
    assert upper.get_title(loc="left") == f"Base\npooled ECE {expected_calibration_error(table):.3f}"


def test_the_reliability_curve_and_its_corner_are_those_of_the_metrics() -> None:
    upper, lower = panels(drawn("reliability-curve", UNREAD))
    table = counted(UNREAD)
    stated, right = line(upper, "recalibrated confidence")
    assert stated == table.values.tolist() and right == recalibrated(table).tolist()
    (corner,) = (text.get_text() for text in upper.texts)
    parts = (miscalibration(table), discrimination(table), uncertainty(table))
    assert corner.split() == ["MCB", f"{parts[0]:.3f}", "DSC", f"{parts[1]:.3f}", "UNC", f"{parts[2]:.3f}"]
    assert sum(bar.get_height() for bar in lower.patches) == table.responses


def test_the_band_is_of_one_readable_response_to_each_question() -> None:
    (band,) = panels(drawn("reliability-curve", UNREAD))[0].collections
    readable = UNREAD.rows.drop_nulls("confidence")
    stated, low, high = consistency_band(counted(replace(UNREAD, rows=one_response_each(readable))))
    corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices.tolist()}
    for x, y in zip([*stated, *stated], [*low, *high], strict=True):
        assert (round(x, 9), round(y, 9)) in corners


def test_a_single_confidence_has_a_band_that_can_be_seen() -> None:
    (band,) = panels(drawn("reliability-curve", ModelResult("x", rows_of(confidence=pl.lit(0.7)))))[
        0
    ].collections
    x, y = band.get_paths()[0].vertices.T
    assert np.ptp(x) > 0.01 and np.ptp(y) > 0.01 and y.min() < 0.7 < y.max()


def test_the_corner_of_numbers_is_where_the_curve_is_not() -> None:
    sure, unsure = (
        panels(drawn("reliability-curve", ModelResult("x", rows_of(correct=pl.lit(right)))))[0].texts[0]
        for right in (False, True)
    )
    assert sure.get_position()[1] > 0.5 > unsure.get_position()[1]


def test_distribution_bars_hold_every_readable_response(monkeypatch: pytest.MonkeyPatch) -> None:
    heights: list[list[float]] = []
    monkeypatch.setattr(confidence, "bars", lambda _ax, _left, height, *_, **__: heights.append(height))
    drawn("confidence", UNREAD)
    right, wrong = (sum(part) for part in heights)
    readable = UNREAD.rows.filter(pl.col("confidence").is_not_null())
    assert right == pytest.approx(readable["correct"].mean())
    assert right + wrong == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_figures_have_a_panel_per_model_and_text_as_text(count: int) -> None:
    models = [ModelResult(f"model {index}", ROWS) for index in range(count)]
    for name in ("confidence", "reliability", "reliability-curve", "correlation"):
        text = svg(name, *models)
        assert len(set(re.findall(r"model \d", text))) == count
        assert "<metadata" not in text and "DOCTYPE" not in text


def test_every_training_set_has_histograms_of_its_own() -> None:
    sets = tuple(
        replace(TARGETS[0], label=f"set {number}", before={"0.10": number + 1}) for number in range(4)
    )
    with rc_context(LIGHT.settings):
        figure = FIGURES["targets"].draw(summary_of(training_sets=sets))
    shown = [ax for ax in figure.axes if ax.get_visible() and ax.has_data()]
    titles = [ax.get_title("left") for ax in shown]
    assert [title.split("\n")[0] for title in titles if "set" in title] == [
        f"set {number}" for number in range(4)
    ]
    assert len(shown) == 8 and figure.get_figwidth() <= PAGE_INCHES + 1e-9
    heights = [ax.patches[0].get_height() for ax in shown if "Before" in ax.get_title("left")]
    assert heights == [1, 2, 3, 4]


def test_a_training_set_that_is_imitated_has_no_targets() -> None:
    warmup = replace(TARGETS[0], label="warm-up", imitated=True)
    assert drawn("targets", training_sets=(warmup,)) is None
    figure = drawn("targets", training_sets=(warmup, *TARGETS))
    assert figure is not None and len(figure.axes) == 2


def test_targets_may_be_words_and_confidences_may_be_all_unreadable() -> None:
    text = svg("targets", training_sets=TARGETS)
    assert ">low<" in text and "8 responses" in text
    unread = ROWS.with_columns(confidence=pl.lit(None, dtype=pl.Float64))
    assert "no readable confidence" in svg("confidence", ModelResult("x", unread))
    for name in ("reliability", "reliability-curve", "correlation", "coverage"):
        assert drawn(name, ModelResult("x", unread)) is not None


# Labels


@pytest.mark.filterwarnings("error")
def test_labels_in_any_script_are_drawn_without_a_warning() -> None:
    shown = show(FIGURES["confidence"], summary_of(ModelResult("模型 ✅ ا", ROWS)), list(KINDS))
    assert shown is not None and "模型 ✅ ا" in shown.svg()


def test_every_file_has_its_own_name_in_the_legend() -> None:
    long = "a name that is much longer than what fits into a legend, "
    for labels in (("_hidden", "shown"), (f"{long} 1", f"{long} 2")):
        names = [
            look.label for look, _ in groups_of([ModelResult(label, ROWS) for label in labels])[0].members
        ]
        assert len(set(names)) == 2 and not any(name.startswith("_") for name in names)
        assert set(names) <= set(legend(drawn("coverage", *(ModelResult(label, ROWS) for label in labels))))


def test_labels_are_names_and_never_formulas_or_control_sequences() -> None:
    label = "$\\frac{1}{0}$ \x1b[31m\u202e"
    for name in ("confidence", "reliability", "reliability-curve", "correlation", "coverage"):
        text = re.sub("<!--.*?-->", "", svg(name, ModelResult(label, ROWS), MODEL), flags=re.S)
        assert "$\\frac{1}{0}$" in text and "\x1b" not in text and "\u202e" not in text


# Which models share a panel


def test_models_of_a_method_share_a_column_and_others_stand_for_themselves() -> None:
    models = [
        BASE, TUNED, replace(TUNED, label="RLVR→CalibSFT"),
        replace(BASE, label="Base→RLCR", method="RLCR"), replace(TUNED, label="CalibSFT→RLCR", method="RLCR"),
    ]  # fmt: skip
    found = [
        (group.title, [(look.label, m.label) for look, m in group.members]) for group in groups_of(models)
    ]
    without, after = "without CalibSFT", "after CalibSFT"
    assert found == [
        ("Base", [(without, "Base"), (after, "CalibSFT")]),
        ("RLVR→CalibSFT", [(after, "RLVR→CalibSFT")]),
        ("RLCR", [(without, "Base→RLCR"), (after, "CalibSFT→RLCR")]),
    ]


def test_up_to_five_files_share_a_panel_and_more_get_one_each() -> None:
    models = [ModelResult(f"m{index}", ROWS) for index in range(6)]
    (together,) = groups_of(models[:5])
    assert [look.label for look, _ in together.members] == ["m0", "m1", "m2", "m3", "m4"]
    assert [group.title for group in groups_of(models)] == ["m0", "m1", "m2", "m3", "m4", "m5"]


# Coverage


def coverage_of(model: ModelResult, split: str) -> tuple[np.ndarray, float]:
    rows = model.rows.filter(split=split)
    questions = rows.select(pl.struct("dataset", "question_id")).to_series()
    shares = answered_held_out(rows["confidence"], rows["correct"], questions, RISKS).coverage
    return shares.mean(axis=0), float(rows["correct"].mean())


def test_coverage_is_the_mean_over_halves_for_every_split_with_its_perfect_ranking() -> None:
    many = ModelResult("Base", rows_of(questions=200, samples=1), calibrated=False)
    upper, lower = panels(drawn("coverage", many))
    assert [ax.get_ylabel() for ax in (upper, lower)] == [
        "in distribution\ncoverage",
        "out of distribution\ncoverage",
    ]
    for ax, split in ((upper, "id"), (lower, "ood")):
        mean, accuracy = coverage_of(many, split)
        risks, shares = line(ax, "without CalibSFT")
        assert risks == list(RISKS) and shares == pytest.approx(mean.tolist())
        ideal = [perfect_ranking(accuracy, risk) for risk in RISKS]
        assert any(
            list(one.get_ydata()) == pytest.approx(ideal) for one in ax.get_lines() if len(one.get_ydata())
        )
    assert max(line(upper, "without CalibSFT")[1]) > 0.5
    assert RISKS[0] == 0.02 and RISKS[-1] == 0.5


def test_the_same_id_in_two_benchmarks_is_two_questions() -> None:
    # 20 questions in each of three benchmarks: 30 of 60 certify a risk of 0.25 without an error, 10 of 20 do not
    rows = rows_of(questions=20, samples=1, confidence=0.9, correct=True)
    (upper, _) = panels(drawn("coverage", ModelResult("x", rows)))
    shares = dict(zip(*line(upper, "x"), strict=True))
    assert shares[0.24] == 1 and shares[0.2] == 0


def test_a_file_without_splits_has_one_panel_and_one_without_questions_has_no_coverage() -> None:
    assert len(panels(drawn("coverage", ModelResult("x", ROWS.drop("split", "dataset"))))) == 1
    assert drawn("coverage", ModelResult("x", ROWS.drop("question_id"))) is None


# Correlation


def test_points_are_benchmarks_and_the_title_has_both_coefficients_of_each_split() -> None:
    (ax,) = panels(drawn("correlation", MODEL))
    lines = ax.get_title(loc="left").splitlines()
    assert lines[0] == "Base"
    for text, points, split in zip(lines[1:], ax.collections, ("id", "ood"), strict=True):
        part = (
            ROWS.filter(split=split)
            .group_by("dataset")
            .agg(pl.col("correct", "confidence").mean())
            .sort("dataset")
        )
        assert points.get_offsets().tolist() == [
            pytest.approx(row) for row in part.select("correct", "confidence").rows()
        ]
        r, rho = (test(part["confidence"], part["correct"]).statistic for test in (pearsonr, spearmanr))
        assert text == f"{split.upper()}: r {r:.2f}, ρ {rho:.2f} (3 benchmarks)"


@pytest.mark.filterwarnings("error")
def test_two_benchmarks_or_a_constant_have_no_correlation() -> None:
    few = ROWS.filter(pl.col("dataset").is_in(["aime", "gsm8k"])).drop("split")
    assert "r –, ρ – (2 benchmarks)" in svg("correlation", ModelResult("x", few))
    assert "ID: r –, ρ – (3 benchmarks)" in svg("correlation", ModelResult("x", rows_of(confidence=0.9)))
    assert drawn("correlation", ModelResult("x", few.filter(dataset="aime"))) is None
    assert drawn("correlation", ModelResult("x", few.drop("dataset"))) is None


# Budgets


def test_budgets_are_joined_in_order_and_lead_to_the_result_without_a_limit() -> None:
    figure = drawn("budgets", BASE, TUNED)
    accuracy, ece = panels(figure)
    assert (accuracy.get_ylabel(), ece.get_ylabel()) == ("Pass@1", "ECE")
    assert line(accuracy, "after CalibSFT") == ([16, 64], [0.25, 0.35])
    assert line(ece, "without CalibSFT") == ([16, 64], [0.5, 0.4])
    ends = [one.get_xydata().tolist() for one in ece.get_lines() if one.get_linestyle() == ":"]
    assert ends == [[[64, 0.4], [128, 0.3]], [[64, 0.2], [128, 0.1]]]
    assert [label.get_text() for label in ece.get_xticklabels()] == ["64", "16", "no limit"]
    assert ece.get_xscale() == "log" and legend(figure) == ["without CalibSFT", "after CalibSFT"]


@pytest.mark.parametrize("values, scale, end", [((100, 200, 300), "linear", 400), ((100,), "linear", 200)])
def test_budgets_close_together_are_on_a_plain_scale(values: Sequence[int], scale: str, end: int) -> None:
    points = budgets(*((value, 0.5, 0.1) for value in values), (None, 0.6, 0.1))
    _, ece = panels(drawn("budgets", replace(MODEL, budgets=points)))
    assert ece.get_xscale() == scale and max(ece.get_xticks()) == end


def test_many_budgets_are_not_all_named_but_the_last_one_is() -> None:
    points = budgets(*((2**power, 0.5, 0.1) for power in range(4, 15)), (None, 0.6, 0.1))
    _, ece = panels(drawn("budgets", replace(MODEL, budgets=points)))
    names = [label.get_text() for label in ece.get_xticklabels()]
    assert names == ["16,384", "2,048", "256", "32", "no limit"]


def test_methods_share_scales_on_which_every_line_is_inside_its_panel() -> None:
    better = replace(
        BASE, label="Base→RLCR", method="RLCR", budgets=budgets((16, 0.9, 0.1), (None, 0.95, 0.05))
    )
    found = panels(drawn("budgets", BASE, better))
    for ax in found:
        low, high = ax.get_ylim()
        assert all(low <= value <= high for one in ax.get_lines() for value in one.get_ydata())
    for row in (found[:2], found[2:]):
        assert row[0].get_ylim() == row[1].get_ylim()


# Many models


@pytest.mark.parametrize("name", ["coverage", "budgets"])
def test_many_methods_wrap_within_the_page(name: str) -> None:
    models = [
        replace(model, label=f"{model.label}→M{index}", method=f"M{index}")
        for index in range(8)
        for model in (BASE, TUNED)
    ]
    figure = drawn(name, *models)
    assert figure is not None and figure.get_figwidth() <= PAGE_INCHES + 1e-9
    assert len(panels(figure)) == 16
    assert [ax.get_title(loc="left") for ax in panels(figure) if ax.get_title(loc="left")] == [
        f"M{index}" for index in range(8)
    ]
