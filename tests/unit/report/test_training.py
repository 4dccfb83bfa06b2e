"""RL in a report: what is read from stage folders, drawn over steps, and compared over seeds."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from calibsft.artifacts import StageFolder, write_json, write_parquet
from calibsft.errors import InputError
from calibsft.metrics import score_table
from calibsft.metrics.selection import Where
from calibsft.report.figures import FIGURES, render
from calibsft.report.figures.panels import pairs_of
from calibsft.report.figures.smoothing import window
from calibsft.report.figures.style import LIGHT, PAGE_INCHES, PANELS_PER_ROW, grid
from calibsft.report.page import write_page, write_report
from calibsft.report.runs import headline, summarise
from calibsft.report.sources import read_sources
from calibsft.report.summary import (
    GradientShare,
    ModelResult,
    RunSummary,
    TrainingRun,
)

LABELS = {
    "eval-base": "Base",
    "eval-calibsft": "CalibSFT",
    "eval-rlcr-base": "Base→RLCR",
    "eval-rlcr-calibsft": "CalibSFT→RLCR",
}
STEPS = {"Base": [], "CalibSFT": ["calibsft"], "Base→RLCR": ["rlcr"], "CalibSFT→RLCR": ["calibsft", "rlcr"]}


def training(
    method: str = "RLCR", calibrated: bool = False, count: int = 30, start: str = "", distinct: float = 3.0
) -> TrainingRun:
    start = start or ("CalibSFT" if calibrated else "Base")
    wave = [0.1 * (step % 7) / 7 for step in range(count)]
    steps = pl.DataFrame(
        {
            "step": range(1, count + 1),
            "pass@1": [0.4 + value for value in wave],
            "auroc": [None, *(0.5 + value for value in wave[1:])],
            "brier": [0.3 - value for value in wave],
            "ece": [0.2 + value for value in wave],
            "distinct_values": [distinct + value for value in wave],
            "confidence_entropy": [distinct / 2 + value for value in wave],
        }
    )
    return TrainingRun(f"{start}→{method}", method, start, calibrated, steps)


def gradient(label: str = "Base", shares: tuple[float, ...] = (0.7, 0.2995, 0.0005)) -> GradientShare:
    values = {"confidence": [index / 100 for index in range(len(shares))], "probability": shares}
    frame = pl.DataFrame(values).with_columns(gradient_share=pl.col("probability").reverse())
    return GradientShare(label, 64, frame)


def evaluations(*steps: int) -> pl.DataFrame:
    parts = [
        {"step": step, "split": split, "pass@1": 0.5, "auroc": 0.6, "brier": value, "ece": 0.1}
        for step in steps
        for split, value in (("id", 0.2 + step / 1000), ("ood", 0.9))
    ]
    return pl.DataFrame(parts)


def answers(shift: float = 0.0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "dataset": ["gsm8k"] * 4 + ["drop"] * 4,
            "split": ["id"] * 4 + ["ood"] * 4,
            "question_id": [str(index) for index in range(8)],
            "sample": 0,
            "confidence": [0.8 - shift, 0.3, 0.9, 0.4, 0.7, 0.2 + shift, 0.6, 0.5],
            "correct": [True, False, True, False, True, False, False, True],
            "well_formed": True,
            "reason": "ok",
        }
    )


SUMMARY = RunSummary(
    name="tiny",
    models=(ModelResult("Base", answers()), ModelResult("CalibSFT", answers(0.1))),
    costs=(),
    recipe_yaml="",
    command="",
)


def stage(
    root: Path, name: str, kind: str, settings: dict[str, Any], facts: dict[str, Any], files: dict[str, str]
) -> None:
    folder = StageFolder(root / name, kind, settings)
    folder.begin()
    for file, text in files.items():
        (root / name / file).write_text(text, encoding="utf-8")
    folder.finish(**facts)


def evaluated(root: Path, name: str, label: str, seed: int = 0, steps: list[str] | None = None) -> None:
    settings = {"seed": seed, "format": "probability", "eval": {"samples": 1}}
    stage(root, name, "eval", settings, {} if steps is None else {"lineage": steps}, {})
    rows = answers(0.01 * len(label) + 0.01 * seed)
    write_parquet(root / name / "rows.parquet", rows)
    write_json(root / name / "metrics.json", score_table(rows))


def journal(run: TrainingRun) -> str:
    return "".join(json.dumps({**row, "loss": 0.5}) + "\n" for row in run.steps.iter_rows(named=True))


def trained(
    root: Path, name: str, run: TrainingRun, more: Mapping[str, Any] = MappingProxyType({}), **files: str
) -> None:
    before = [] if run.start == "Base" else ["calibsft"]
    facts = {"method": run.method, "model": "base/model", "lineage": [*before, run.method.lower()]}
    settings = {"seed": 0, "rl": {"steps": len(run.steps)}}
    stage(root, name, "rl", settings, facts | more, {"metrics.jsonl": journal(run)} | files)


def run_folder(root: Path, seed: int = 0) -> Path:
    for name, label in LABELS.items():
        evaluated(root, name, label, seed, STEPS[label])
    stage(
        root,
        "sft",
        "sft",
        {"seed": seed},
        {"lineage": ["calibsft"]},
        {"metrics.jsonl": '{"step": 1, "loss": 2.0}\n'},
    )
    trained(root, "rlcr-calibsft", training(calibrated=True, distinct=6.0 + seed))
    trained(root, "rlcr-base", training(distinct=3.0 + seed))
    return root


def drawn(name: str, **parts: Any) -> Figure | None:
    """A figure of a run with these parts."""
    with rc_context(LIGHT.settings):
        return FIGURES[name].draw(replace(SUMMARY, **parts))


def svg(name: str, **parts: Any) -> str:
    pictures = render(FIGURES[name], replace(SUMMARY, **parts), LIGHT, ["svg"])
    assert pictures is not None
    return pictures["svg"].decode()


def visible(figure: Figure) -> list[Any]:
    return [ax for ax in figure.axes if ax.get_visible()]


def lines(ax: Any, label: str) -> list[Any]:
    return [line for line in ax.get_lines() if line.get_label() == label]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# What is read


def test_trainings_are_read_in_the_order_of_the_stages_with_all_they_measured(tmp_path: Path) -> None:
    first, second = summarise(run_folder(tmp_path)).training
    assert (first.label, first.method, first.start, first.calibrated) == ("Base→RLCR", "RLCR", "Base", False)
    assert (second.label, second.calibrated) == ("CalibSFT→RLCR", True)
    assert first.steps.equals(training().steps) and first.evals is None
    assert second.distinct_values == pytest.approx(
        training(calibrated=True, distinct=6.0).steps["distinct_values"].mean()
    )


def test_of_a_run_some_rows_are_taken_of_every_model_and_budgets_of_all_rows_left_out(tmp_path: Path) -> None:
    root = run_folder(tmp_path / "run")
    budgets = [{"budget": 5, **score_table(answers())}]
    write_json(root / "eval-base" / "budgets.json", budgets)
    assert read_sources([root]).models[0].budgets is not None
    found = read_sources([root], where=Where.of(["dataset=drop"]))
    assert [model.rows["dataset"].to_list() for model in found.models] == [["drop"] * 4] * 4
    assert [model.budgets for model in found.models] == [None] * 4
    assert [model.counterpart for model in found.models] == [
        m.counterpart for m in read_sources([root]).models
    ]
    with pytest.raises(InputError, match=r"run: no row of Base has dataset=dorp; choose other values"):
        read_sources([root], where=Where.of(["dataset=dorp"]))
    with pytest.raises(InputError, match="give one of its evaluations"):
        read_sources([root], by="dataset")


def test_of_an_evaluation_every_value_of_a_column_is_a_model(tmp_path: Path) -> None:
    evaluated(tmp_path, "e", "Base")
    found = read_sources([tmp_path / "e"], by="dataset")
    assert [model.label for model in found.models] == ["drop", "gsm8k"]
    assert [model.rows["dataset"].unique().to_list() for model in found.models] == [["drop"], ["gsm8k"]]
    evaluated(tmp_path, "f", "Base")
    labels = [model.label for model in read_sources([tmp_path / "e", tmp_path / "f"], by="dataset").models]
    assert labels == ["e, drop", "e, gsm8k", "f, drop", "f, gsm8k"]


def test_models_that_rl_starts_from_come_first_whatever_the_folders_are_called(tmp_path: Path) -> None:
    summary = summarise(run_folder(tmp_path))
    assert [model.label for model in summary.models] == ["Base", "CalibSFT", "Base→RLCR", "CalibSFT→RLCR"]
    assert [run.label for run in summary.training] == ["Base→RLCR", "CalibSFT→RLCR"]


def test_trainings_that_are_alike_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    trained(root, "again", training())
    labels = [run.label for run in summarise(root).training]
    assert labels == ["Base→RLCR, again", "Base→RLCR, rlcr-base", "CalibSFT→RLCR"]


def test_a_stage_without_a_journal_is_no_training_and_an_unfinished_one_is_not_shown(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    (root / "rlcr-base" / "metrics.jsonl").unlink()
    (root / "rlcr-calibsft" / "manifest.json").unlink()
    summary = summarise(root)
    assert summary.training == () and "rlcr-base" in {cost.stage for cost in summary.costs}


def test_a_damaged_journal_is_refused_by_file_and_row(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    path = root / "rlcr-base" / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 31, "ec')
    with pytest.raises(InputError, match=r"metrics\.jsonl, row 31: not a JSON object"):
        summarise(root)


def test_numbers_that_are_absent_or_undefined_are_gaps(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    text = '{"step": 1, "auroc": NaN, "ece": 0}\n{"step": 2, "auroc": 0.7, "ece": 0.25}\n'
    (root / "rlcr-base" / "metrics.jsonl").write_text(text)
    run = summarise(root).training[0]
    assert run.steps["auroc"].to_list() == [None, 0.7] and run.steps["ece"].to_list() == [0.0, 0.25]
    assert run.distinct_values is None


def test_a_resumed_stage_is_shown_with_the_cost_of_all_its_parts(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    StageFolder(root / "eval-more", "eval-more", {}).begin()
    (root / "eval-more" / "part").write_text("of an earlier part")
    write_json(root / "eval-more" / "cost.json", {"wall_seconds": 500.0, "peak_memory_mb": 1e6})
    StageFolder(root / "eval-more", "eval-more", {}).perform(lambda folder: {"tokens": 9}, fresh=False)
    (row,) = [cost for cost in summarise(root).costs if cost.stage.startswith("eval-more")]
    assert row.stage == "eval-more" and row.seconds >= 500 and row.peak_memory_mb == 1e6
    (root / "eval-more" / "cost.json").unlink()
    assert "eval-more (last part)" in {cost.stage for cost in summarise(root).costs}


def test_held_out_evaluations_and_gradient_shares_are_read_where_they_exist(tmp_path: Path) -> None:
    root, part = run_folder(tmp_path), {"brier": 0.2, "auroc": None, "ece": 0.1, "pass@1": 0.5, "n": 9}
    evals = json.dumps({"step": 50, "splits": {"id": part, "ood": part | {"brier": 0.4}}}) + "\n"
    trained(root, "coca-base", training("CoCA"), **{"evals.jsonl": evals})
    values = [{"confidence": 0.95, "probability": 0.36, "gradient_share": 0.33}]
    measured = {"gradient.json": json.dumps({"contexts": 64, "values": values})}
    stage(root, "prior-base", "prior", {"format": "probability"}, {"lineage": []}, measured)
    summary = summarise(root)
    found = next(run for run in summary.training if run.label == "Base→CoCA").evals
    assert found.select("step", "split", "brier", "auroc").rows() == [
        (50, "id", 0.2, None),
        (50, "ood", 0.4, None),
    ]
    (share,) = summary.gradients
    assert (share.label, share.contexts) == ("Base", 64)
    assert share.values.rows() == [(0.95, 0.36, 0.33)]


def test_models_know_their_method_and_what_differs_from_them_in_calibsft_alone(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    evaluated(root, "eval", "Other")
    found = {
        model.label: (model.method, model.calibrated, model.counterpart, model.starts_rl)
        for model in summarise(root).models
    }
    assert found == {
        "Base": ("", False, "", True),
        "CalibSFT": ("", True, "Base", True),
        "Base→RLCR": ("RLCR", False, "", False),
        "CalibSFT→RLCR": ("RLCR", True, "Base→RLCR", False),
        "eval": ("", None, "", True),
    }


def test_results_under_budgets_are_in_distribution_means_with_the_unlimited_one_last(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    limited = [{"budget": 8, "forced": 0.5, **score_table(answers(0.2))}]
    write_json(root / "eval-base" / "budgets.json", limited)
    base, tuned, *_ = summarise(root).models
    free = score_table(base.rows)["splits"]["id"]
    under = limited[0]["splits"]["id"]
    assert base.budgets.rows() == [(8, under["pass@1"], under["ece"]), (None, free["pass@1"], free["ece"])]
    assert under["ece"] != free["ece"] and tuned.budgets is None


def test_budgets_without_in_distribution_benchmarks_are_means_over_all(tmp_path: Path) -> None:
    evaluated(tmp_path, "eval-base", "Base")
    scores = score_table(answers().with_columns(split=pl.lit("ood")))
    write_json(tmp_path / "eval-base" / "metrics.json", scores)
    write_json(tmp_path / "eval-base" / "budgets.json", [{"budget": 8, "forced": 0.5, **scores}])
    (model,) = summarise(tmp_path).models
    assert model.budgets["ece"].to_list() == [scores["splits"]["mean over datasets"]["ece"]] * 2


def test_settings_that_differ_between_stages_stand_under_the_later_stage(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    trained(root, "redoubt-base", training("ReDoubt", count=15))
    recipe = summarise(root).recipe_yaml
    assert "\nrl:\n  steps: 30\n" in recipe
    assert recipe.endswith("stages:\n  redoubt-base:\n    rl:\n      steps: 15\n")


# What is drawn


def test_trainings_of_a_method_are_paired_in_order_and_may_lack_a_counterpart() -> None:
    runs = [
        training("RLCR"), training("CoCA", True), training("RLCR", True), training("RLCR", start="RLVR"),
    ]  # fmt: skip
    found = [(pair.method, [run and run.label for run in pair.both]) for pair in pairs_of(runs)]
    assert found == [
        ("RLCR", ["Base→RLCR", "CalibSFT→RLCR"]),
        ("RLCR", ["RLVR→RLCR", None]),
        ("CoCA", [None, "CalibSFT→CoCA"]),
    ]


def test_what_was_warmed_up_is_paired_with_what_was_too() -> None:
    runs = [
        training("RLCR"),
        replace(training("RLCR", start="Warm-up"), warmed_up=True),
        replace(training("RLCR", True, start="Warm-up→CalibSFT"), warmed_up=True),
    ]
    found = [(pair.title, [run and run.label for run in pair.both]) for pair in pairs_of(runs)]
    assert found == [
        ("RLCR", ["Base→RLCR", None]),
        ("Warm-up→RLCR", ["Warm-up→RLCR", "Warm-up→CalibSFT→RLCR"]),
    ]
    models = [
        ModelResult("Base", answers(), calibrated=False),
        ModelResult("Warm-up", answers(), calibrated=False, warmed_up=True),
        ModelResult("Warm-up→CalibSFT", answers(), calibrated=True, warmed_up=True),
    ]
    assert [pair.title for pair in pairs_of(models)] == ["Base", "Warm-up"]
    assert [model.label for model in pairs_of(models)[1].present] == ["Warm-up", "Warm-up→CalibSFT"]


def test_calibration_curves_show_every_step_and_its_mean_with_five_neighbours_on_either_side() -> None:
    run = training(calibrated=True, count=120)
    figure = drawn("calibration-curves", training=[training(), run])
    panels = {ax.get_ylabel(): ax for ax in visible(figure)}
    assert list(panels) == ["ECE", "Brier", "AUROC", "Pass@1"]
    values = run.steps["ece"].to_list()
    (smooth,) = lines(panels["ECE"], "after CalibSFT")
    raw = next(line for line in panels["ECE"].get_lines() if list(line.get_ydata()) == values)
    assert list(smooth.get_xdata()) == list(raw.get_xdata()) == list(range(1, 121))
    assert smooth.get_ydata()[14] == pytest.approx(sum(values[9:20]) / 11)
    assert smooth.get_ydata()[0] == pytest.approx(sum(values[:6]) / 6)
    auroc = run.steps["auroc"].to_list()
    assert lines(panels["AUROC"], "after CalibSFT")[0].get_ydata()[0] == pytest.approx(sum(auroc[1:6]) / 5)


@pytest.mark.parametrize("steps, width", [(1, 1), (19, 1), (30, 3), (75, 7), (100, 11), (160, 11)])
def test_short_trainings_are_smoothed_less(steps: int, width: int) -> None:
    assert window(steps) == width


def test_the_two_kinds_of_training_differ_in_colour_and_in_line_style_and_are_explained_once() -> None:
    figure = drawn(
        "calibration-curves", training=[training("RLCR"), training("CoCA"), training("CoCA", True)]
    )
    assert legend(figure) == ["without CalibSFT", "after CalibSFT"]
    both = visible(figure)[1]
    without, after = (lines(both, label)[0] for label in legend(figure))
    assert without.get_color() != after.get_color() and without.get_linestyle() != after.get_linestyle()


def test_the_methods_of_a_row_share_one_scale() -> None:
    other = training("CoCA")
    other = replace(other, steps=other.steps.with_columns(pl.col("ece", "brier", "auroc", "pass@1") / 2))
    figure = drawn("calibration-curves", training=[training("RLCR"), other])
    for row in range(4):
        left, right = visible(figure)[2 * row : 2 * row + 2]
        assert left.get_ylim() == right.get_ylim()
    assert [ax.get_title(loc="left") for ax in visible(figure)[:2]] == ["RLCR", "CoCA"]


def test_exploration_has_values_on_the_left_entropy_on_the_right_and_calibsft_below() -> None:
    upper, lower = training(), training(calibrated=True, distinct=6.0)
    figure = drawn("exploration-curves", training=[lower, upper])
    (top, bottom), right = visible(figure)[:2], visible(figure)[2:]
    assert top.get_title(loc="left").startswith("Base→RLCR\n")
    assert bottom.get_title(loc="left") == "CalibSFT→RLCR\nmean 6.0 values"
    for ax, twin, run in ((top, right[0], upper), (bottom, right[1], lower)):
        assert list(ax.get_lines()[0].get_ydata()) == run.steps["distinct_values"].to_list()
        assert list(twin.get_lines()[0].get_ydata()) == run.steps["confidence_entropy"].to_list()
    assert top.get_ylim() == bottom.get_ylim() and right[0].get_ylim() == right[1].get_ylim()
    assert top.get_ylim()[0] == 0 and top.get_ylim()[1] > 6.0 and right[0].get_ylim()[0] == 0


def test_names_too_long_for_a_panel_are_cut() -> None:
    for name in ("calibration-curves", "exploration-curves"):
        text = svg(name, training=[training("R" * 30, start="B" * 30)])
        assert re.search("(R{23}|B{23})…", text) and "R" * 24 not in text and "B" * 24 not in text


def test_exploration_says_where_a_counterpart_was_not_trained() -> None:
    both = [training(), training(calibrated=True)]
    assert "not trained" in svg("exploration-curves", training=both[:1])
    assert "not trained" not in svg("exploration-curves", training=both)


@pytest.mark.parametrize("methods, wide", [(1, 1), (6, 6), (7, 4), (13, 5)])
def test_curves_wrap_before_the_figure_is_wider_than_the_page(methods: int, wide: int) -> None:
    runs = [training(f"M{index}", count=3) for index in range(methods)]
    for name, rows in (("calibration-curves", 4), ("exploration-curves", 2)):
        figure = drawn(name, training=runs)
        panels = [ax for ax in visible(figure) if ax.get_subplotspec().is_first_row()]
        assert len({ax.get_subplotspec().colspan.start for ax in panels}) == wide
        assert figure.get_figwidth() <= PAGE_INCHES + 1e-9
        left = [ax for ax in visible(figure) if ax.yaxis.get_label_position() == "left"]
        assert len(left) == methods * rows
        numbered = [ax for ax in left if ax.yaxis.get_tick_params()["labelleft"]]
        assert len(numbered) == rows * -(-methods // wide)


def test_held_out_curves_show_the_in_distribution_points_only() -> None:
    run = replace(training(), evals=evaluations(100, 50))
    figure = drawn("held-out-curves", training=[run, training(calibrated=True)])
    brier, auroc = visible(figure)
    assert (brier.get_ylabel(), auroc.get_ylabel()) == ("Brier", "AUROC")
    (line,) = brier.get_lines()
    assert line.get_xydata().tolist() == [[50, 0.25], [100, pytest.approx(0.3)]]
    assert drawn("held-out-curves", training=[training()]) is None
    outside = replace(run, evals=run.evals.filter(split="ood"))
    assert drawn("held-out-curves", training=[outside]) is None


def test_gradient_points_are_the_measured_shares_and_the_line_is_equal_share() -> None:
    shares = [gradient(), gradient("CalibSFT", (0.5, 0.3, 0.15, 0.05))]
    figure = drawn("gradient-shares", gradients=shares)
    base, tuned = visible(figure)
    assert base.collections[0].get_offsets().tolist() == [[0.7, 0.0005], [0.2995, 0.2995], [0.0005, 0.7]]
    assert len(tuned.collections[0].get_offsets()) == 4
    assert base.get_xscale() == base.get_yscale() == "log"
    assert (base.get_lines()[0].get_xdata() == base.get_lines()[0].get_ydata()).all()
    assert legend(figure) == ["equal share", "one confidence value"]


def test_rare_values_are_counted_with_their_share_of_the_gradient() -> None:
    text = svg("gradient-shares", gradients=[gradient()])
    assert "1 of 3 values below 0.1 %:<" in text and ">70.0 % of the gradient<" in text
    assert ">1e-3<" in text and "mathdefault" not in text and "mean over 64 responses<" in text
    nothing = gradient().values.with_columns(gradient_share=pl.lit(0.0), probability=pl.lit(0.0))
    empty = replace(gradient(), values=nothing)
    assert ">0.0 % of the gradient<" in svg("gradient-shares", gradients=[empty])


@pytest.mark.parametrize("count", [3, 4, 5, 15])
def test_many_models_are_drawn_in_at_most_four_columns_within_the_page(count: int) -> None:
    models = [ModelResult(f"model {index}", answers()) for index in range(count)]
    assert grid(count)[1] == min(count, 4) == min(count, PANELS_PER_ROW)
    for name in ("confidence", "reliability", "correlation"):
        assert drawn(name, models=models).get_figwidth() <= PAGE_INCHES + 1e-9


# The page


def test_the_page_gains_the_figures_of_what_was_measured_and_nothing_without_rl(tmp_path: Path) -> None:
    runs = (replace(training(), evals=evaluations(50)), training(calibrated=True))
    measured = replace(SUMMARY, training=runs, gradients=(gradient(), gradient("CalibSFT")))
    page = write_report(measured, tmp_path / "rl", ["svg"])
    names = {path.stem for path in (page.parent / "figures").iterdir()}
    added = {"calibration-curves", "exploration-curves", "held-out-curves", "gradient-shares"}
    always = {"confidence", "reliability", "reliability-curve", "correlation", "coverage"}
    assert names == {f"{name}{theme}" for name in always | added for theme in ("", "-dark")}
    text = (page.parent / "report.md").read_text()
    assert "rolling mean over about a tenth of the steps, at most 11" in text
    assert "An arrow is a training" in text and "An arrow is a training" in page.read_text()
    plain = write_report(SUMMARY, tmp_path / "plain", ["svg"])
    assert {path.stem.removesuffix("-dark") for path in (plain.parent / "figures").iterdir()} == always
    assert "An arrow is a training" not in plain.read_text()


def test_long_details_are_folded_and_the_headline_never_is(tmp_path: Path) -> None:
    models = tuple(ModelResult(f"model {index}", answers()) for index in range(7))
    html = write_page(replace(SUMMARY, models=models), tmp_path / "report.html").read_text()
    folded = re.findall(r"<summary>(.*?)</summary>", html)
    assert folded == ["Per benchmark (14 rows)", "Resolved recipe"]
    before = html.split("<h2>Details</h2>")[0]
    assert before.count("<table>") == 3 and "<details>" not in before
    few = write_page(SUMMARY, tmp_path / "report.html").read_text()
    assert re.findall(r"<summary>(.*?)</summary>", few) == ["Resolved recipe"]


def alone(folder: Path, method: str = "RLCR", **files: str) -> Path:
    """A folder as `calibsft rl` leaves it."""
    stage_folder = StageFolder(folder, "rl", {"seed": 0, "rl": {"steps": 30}})
    stage_folder.begin()
    (folder / "metrics.jsonl").write_text(journal(training()))
    for name, text in files.items():
        (folder / name).write_text(text)
    stage_folder.finish(method=method, model="org/start", lineage=[method.lower()], steps=30, tokens=1234)
    return folder


def test_a_folder_of_one_training_has_a_page_of_its_own(tmp_path: Path) -> None:
    part = {"brier": 0.2, "auroc": 0.6, "ece": 0.1, "pass@1": 0.5}
    evals = json.dumps({"step": 50, "splits": {"id": part}}) + "\n"
    summary = read_sources([alone(tmp_path / "mine", **{"evals.jsonl": evals})])
    (run,) = summary.training
    assert (run.label, run.method, run.start, run.calibrated) == ("mine", "RLCR", "org/start", None)
    assert summary.models == () and "steps: 30" in summary.recipe_yaml
    page = write_report(summary, tmp_path / "page", ["svg"])
    names = {path.stem for path in (page.parent / "figures").iterdir() if "dark" not in path.stem}
    assert names == {"calibration-curves", "exploration-curves", "held-out-curves"}
    text = (page.parent / "report.md").read_text()
    rows = table_rows(text.split("## Details")[0])
    assert [row[0] for row in rows] == ["Training", "mine, first 3 of 30 steps", "mine, last 3"]
    wanted = training().steps["brier"][:3].mean()
    assert rows[1][3] == f"{wanted:.3f}" and "1,234" in text.split("## Details")[1]
    assert "Evaluate the trained model" in page.read_text() and "pooled ECE alone" not in page.read_text()


def test_nothing_is_said_about_calibsft_where_it_is_not_known(tmp_path: Path) -> None:
    summary = read_sources([alone(tmp_path / "mine")])
    for name, panels in (("calibration-curves", 4), ("exploration-curves", 2)):
        figure = drawn(name, training=summary.training)
        assert len(visible(figure)) == panels and not any("CalibSFT" in text for text in legend(figure))


def test_trainings_are_compared_with_each_other_and_shown_beside_evaluations(tmp_path: Path) -> None:
    folders = [alone(tmp_path / "one"), alone(tmp_path / "two", "CoCA")]
    both = read_sources(folders)
    assert [(run.label, run.method) for run in both.training] == [("one", "RLCR"), ("two", "CoCA")]
    assert [row[0] for row in table_rows(write_markdown(both, tmp_path)) if "last" in row[0]] == [
        "one, last 3",
        "two, last 3",
    ]
    evaluated(tmp_path, "after", "After")
    beside = read_sources([folders[0], tmp_path / "after"])
    assert [model.label for model in beside.models] == ["after"] and len(beside.training) == 1
    together = summarise(tmp_path)
    assert [run.label for run in together.training] == ["Base→RLCR", "Base→CoCA"] and len(
        together.models
    ) == 1


def write_markdown(summary: RunSummary, folder: Path) -> str:
    return (write_report(summary, folder / "page", ["svg"]).parent / "report.md").read_text()


def test_a_folder_of_one_fine_tuning_has_no_report(tmp_path: Path) -> None:
    stage(tmp_path, "sft", "sft", {"seed": 0}, {}, {"metrics.jsonl": '{"step": 1, "loss": 2.0}\n'})
    with pytest.raises(InputError, match="neither a training by RL nor an evaluation"):
        read_sources([tmp_path / "sft"])


def test_an_unfinished_training_is_refused(tmp_path: Path) -> None:
    (alone(tmp_path / "mine") / "manifest.json").unlink()
    with pytest.raises(InputError, match="not a finished stage"):
        read_sources([tmp_path / "mine"])


# Several seeds


def table_rows(markdown: str) -> list[list[str]]:
    """The cells of every table row, header rows included."""
    found = [line.strip("|").split("|") for line in markdown.splitlines() if line.startswith("| ")]
    return [[cell.replace("*", "").strip() for cell in row] for row in found if not row[0].startswith(" ---")]


def seeded_folder(root: Path, seeds: dict[str, tuple[int, ...]]) -> Path:
    """A run whose trained models are there for several seeds each, as a recipe with training seeds leaves them."""
    evaluated(root, "eval-base", "Base", 0, [])
    for title, trained_with in seeds.items():
        for seed in trained_with:
            steps = STEPS[title]
            facts = {"lineage": steps, "training_seed": seed}
            name = f"eval-{'-'.join(steps)}-seed{seed}"
            stage(root, name, "eval", {"seed": 0, "format": "probability"}, facts, {})
            rows = answers(0.01 * len(title) + 0.01 * seed**2)
            write_parquet(root / name / "rows.parquet", rows)
            write_json(root / name / "metrics.json", score_table(rows))
            if "rlcr" in steps:
                run = training(calibrated="calibsft" in steps, distinct=3.0 + seed)
                trained(root, f"{'-'.join(steps)}-seed{seed}", run, {"training_seed": seed})
    return root


EVERY = {"CalibSFT": (0, 1, 3), "Base→RLCR": (0, 1, 3), "CalibSFT→RLCR": (0, 1, 3)}


def test_one_seed_is_one_table(tmp_path: Path) -> None:
    text = headline(run_folder(tmp_path, seed=7))
    assert re.findall(r"\*\*([IO].*)\*\*\n", text) == [
        "In distribution, 1 seed",
        "Out of distribution, 1 seed",
    ]
    header, *rows = table_rows(text.split("**Out")[0])
    assert header == [
        "Seed", "Model", "Pass@1 ↑", "AUROC ↑", "Brier ↓", "ECE, mean ↓", "ECE, pooled ↓", "Effective support",
        "Distinct values / question",
    ]  # fmt: skip
    assert [row[:2] for row in rows] == [["7", label] for label in LABELS.values()]
    assert [row[-1] for row in rows] == ["–", "–", "10.0", "13.0"] and "±" not in text


def test_several_seeds_are_mean_and_sd_first_and_then_each(tmp_path: Path) -> None:
    root = seeded_folder(tmp_path, EVERY)
    text = headline(root)
    assert re.findall(r"\*\*([IO].*)\*\*\n", text) == [
        "In distribution, mean ± sd over 3 training seeds", "In distribution, each seed",
        "Out of distribution, mean ± sd over 3 training seeds", "Out of distribution, each seed",
    ]  # fmt: skip
    rows = table_rows(text.split("**Out")[0])
    assert [row[0] for row in rows[:5]] == ["Model", "Base", *EVERY]
    assert [row[:2] for row in rows[5:]] == [
        ["Seed", "Model"], ["–", "Base"], *([str(seed), title] for seed in (0, 1, 3) for title in EVERY),
    ]  # fmt: skip


def test_the_sd_is_that_of_a_sample_and_of_two_seeds_or_more(tmp_path: Path) -> None:
    root = seeded_folder(tmp_path, EVERY)
    rows = table_rows(headline(root).split("**Out")[0])
    brier = rows[0].index("Brier ↓")
    cells = {row[0]: row for row in rows[1:5]}
    found = [
        json.loads((root / f"eval-calibsft-seed{seed}" / "metrics.json").read_text())["splits"]["id"]["brier"]
        for seed in (0, 1, 3)
    ]
    mean = sum(found) / 3
    sd = (sum((value - mean) ** 2 for value in found) / 2) ** 0.5
    assert sd > 0.001 and cells["CalibSFT"][brier] == f"{mean:.3f} ± {sd:.3f}"
    assert "±" not in "".join(cells["Base"])
    distinct = 4 / 3 + training(distinct=3.0).distinct_values  # seeds 0, 1 and 3 have so many more
    assert cells["Base→RLCR"][-1] == f"{distinct:.1f} ± 1.5" and cells["CalibSFT"][-1] == "–"


def test_a_mean_over_fewer_seeds_is_told(tmp_path: Path) -> None:
    seeds = EVERY | {"CalibSFT→RLCR": (0, 3), "Base→RLCR": (1,)}
    text = headline(seeded_folder(tmp_path, seeds))
    assert text.count("Seeds in the mean: Base→RLCR: 1 of 3, CalibSFT→RLCR: 2 of 3.") == 2
    (single,) = [row for row in table_rows(text.split("each seed")[0]) if row[0] == "Base→RLCR"]
    assert "±" not in "".join(single)


def test_the_page_shows_models_over_seeds_and_each_with_its_pair(tmp_path: Path) -> None:
    root = seeded_folder(tmp_path, EVERY)
    summary = summarise(root)
    by_label = {model.label: model for model in summary.models}
    assert by_label["CalibSFT→RLCR, seed 3"].counterpart == "Base→RLCR, seed 3"
    assert by_label["CalibSFT, seed 3"].counterpart == "Base" and by_label["Base"].seed is None
    assert [pair.title for pair in pairs_of(summary.training)] == [
        "RLCR, seed 0",
        "RLCR, seed 1",
        "RLCR, seed 3",
    ]
    assert all(len(pair.present) == 2 for pair in pairs_of(summary.training))
    page = write_report(summary, tmp_path / "page", ["svg"])
    text = (page.parent / "report.md").read_text()
    assert "In distribution, mean ± sd over 3 training seeds" in text and "Base→RLCR, seed 1" in text
    assert "standard deviation over training seeds" in page.read_text()
    rows = [row for row in table_rows(text) if row[0] == "CalibSFT"]
    assert len(rows) == 2 and all("±" in row[1] + row[3] for row in rows), "one for each split"


def test_seeds_without_rl_have_no_column_for_it(tmp_path: Path) -> None:
    evaluated(tmp_path, "eval-base", "Base", seed=3, steps=[])
    text = headline(tmp_path)
    assert "Distinct" not in text and table_rows(text)[1][:2] == ["3", "Base"]


def test_a_folder_without_an_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished evaluation there"):
        headline(tmp_path)
