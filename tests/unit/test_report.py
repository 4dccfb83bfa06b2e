"""Reports show the numbers of `metrics`, mark the best, and write whole files with the same bytes each time."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import evaluate, reliability_bins, score_table
from calibsft.metrics.table import ConfidenceTable
from calibsft.report import (
    ModelResult,
    RunSummary,
    SeedResult,
    StageCost,
    TargetHistogram,
    figures,
    seeds_table,
    write_report,
)
from calibsft.report.columns import duration
from calibsft.report.tables import benchmark_table, cost_table, filter_table, headline_tables, reasons_table


def rows_of(confidences: dict[str, list[float | None]], correct: list[bool]) -> pl.DataFrame:
    parts = [
        pl.DataFrame(
            {
                "dataset": name,
                "split": "ood" if name == "drop" else "id",
                "question_id": [str(index) for index in range(len(correct))],
                "sample": 0,
                "confidence": pl.Series(values, dtype=pl.Float64),
                "correct": correct,
                "well_formed": [value is not None for value in values],
                "reason": ["ok" if value is not None else "truncated" for value in values],
            }
        )
        for name, values in confidences.items()
    ]
    return pl.concat(parts)


CORRECT = [True, False, True, False]
BASE = ModelResult(
    "Base",
    rows_of(
        {"gsm8k": [0.9, 0.9, 0.95, 0.95], "aime": [0.9, 0.9, 0.9, 0.9], "drop": [0.9, 0.8, None, 0.9]},
        CORRECT,
    ),
)
TUNED = ModelResult(
    "Tuned",
    rows_of(
        {"gsm8k": [0.8, 0.1, 0.7, 0.3], "aime": [0.6, 0.2, 0.9, 0.3], "drop": [0.5, 0.6, 0.7, 0.1]}, CORRECT
    ),
)
SUMMARY = RunSummary(
    name="tiny",
    models=(BASE, TUNED),
    targets=TargetHistogram({"0.10": 30, "0.37": 4, "1.00": 50}, {"0.10": 4, "0.37": 4, "1.00": 4}),
    filtered={"bad_confidence": 3, "truncated": 1200},
    costs=(StageCost("rollout", 50.0, 100_000, 512.0), StageCost("verify", 75.4, None, None)),
    recipe_yaml="seed: 0\nsft:\n  beta: 0.5\n",
    command="calibsft run tiny",
)
LABELS = ["Base", "Tuned"]
SCORES = [score_table(model.rows) for model in (BASE, TUNED)]


def counted(model: ModelResult, dataset: str) -> dict[str, float]:
    part = model.rows.filter(pl.col("dataset") == dataset).with_columns(pl.col("confidence").fill_null(0.0))
    return evaluate(part["confidence"], part["correct"])


def column(table: object, title: str) -> list[str]:
    return [row[table.header.index(title)].text for row in table.rows]


def test_benchmark_rows_show_the_metrics_of_the_same_rows() -> None:
    table = benchmark_table(LABELS, SCORES, {"aime": "id", "gsm8k": "id", "drop": "ood"})
    pairs = [(name, model) for name in ("aime", "gsm8k", "drop") for model in (BASE, TUNED)]
    expected = [counted(model, name) for name, model in pairs]
    assert column(table, "Benchmark") == [name for name, _ in pairs]
    assert column(table, "Model") == [model.label for _, model in pairs]
    titles = {"Pass@1 ↑": "pass@1", "AUROC ↑": "auroc", "Brier ↓": "brier", "ECE ↓": "ece"}
    for title, key in titles.items():
        assert column(table, title) == [f"{found[key]:.3f}" for found in expected], title
    assert column(table, "Effective support") == [f"{found['effective_support']:.1f}" for found in expected]
    assert column(table, "Unreadable ↓") == ["0.0 %"] * 4 + ["25.0 %", "0.0 %"]


def test_headline_shows_means_over_benchmarks_and_pooled_ece_per_split() -> None:
    inside, outside = headline_tables(LABELS, SCORES)
    assert (inside.title, outside.title) == (
        "In distribution, 2 benchmarks",
        "Out of distribution, 1 benchmark",
    )
    for index, model in enumerate((BASE, TUNED)):
        parts = [counted(model, name) for name in ("gsm8k", "aime")]
        pooled = model.rows.filter(split="id")
        for title, key in {"AUROC ↑": "auroc", "Brier ↓": "brier", "ECE, mean ↓": "ece"}.items():
            assert column(inside, title)[index] == f"{(parts[0][key] + parts[1][key]) / 2:.3f}"
        assert (
            column(inside, "ECE, pooled ↓")[index]
            == f"{evaluate(pooled['confidence'], pooled['correct'])['ece']:.3f}"
        )


def test_only_the_best_is_marked_and_never_a_tie_of_all_or_a_column_without_direction() -> None:
    inside = headline_tables(LABELS, SCORES)[0]
    best = {title: [row[i].best for row in inside.rows] for i, title in enumerate(inside.header)}
    assert best["AUROC ↑"] == best["Brier ↓"] == [False, True]
    assert best["Pass@1 ↑"] == [False, False]
    assert best["Effective support"] == [False, False]


def test_models_that_print_the_same_best_number_are_marked_alike() -> None:
    inside = headline_tables(["A", "B", "C"], [SCORES[1], SCORES[0], SCORES[1]])[0]
    assert [row[inside.header.index("Brier ↓")].best for row in inside.rows] == [True, False, True]


def test_an_undefined_auroc_is_a_dash_and_its_absence_is_noted() -> None:
    one_class = rows_of({"gsm8k": [0.9, 0.8], "aime": [0.2, 0.3]}, [True, True])
    score = score_table(
        one_class.with_columns(correct=pl.col("dataset").is_in(["gsm8k"]) | (pl.col("confidence") > 0.25))
    )
    table = headline_tables(["Base"], [score])[0]
    assert table.note.endswith("Base: 1 of 2.")
    assert column(benchmark_table(["Base"], [score], {"gsm8k": "id"}), "AUROC ↑") == ["–"]


def test_a_model_without_a_benchmark_gets_dashes() -> None:
    short = score_table(BASE.rows.filter(dataset="gsm8k"))
    outside = headline_tables(["Short", "Tuned"], [short, SCORES[1]])[1]
    assert [cell.text for cell in outside.rows[0][1:]] == ["–"] * 7
    assert not any(cell.best for row in outside.rows for cell in row)


def test_costs_are_summed_and_rates_only_given_where_known() -> None:
    table = cost_table(SUMMARY.costs)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["rollout", "50.0 s", "100,000", "2,000", "512 MB"],
        ["verify", "1 min 15 s", "–", "–", "–"],
        ["Total", "2 min 05 s", "100,000", "–", "512 MB"],
    ]
    assert cost_table(()) is None


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 00 s"),
        (60, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (11520, "3 h 12 min"),
    ],
)
def test_durations_never_show_sixty(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_reasons_and_filters_are_counted_and_absent_when_empty() -> None:
    reasons = reasons_table((BASE, TUNED))
    assert reasons.header == ("Model", "truncated")
    assert [[cell.text for cell in row] for row in reasons.rows] == [["Base", "1"], ["Tuned", "0"]]
    assert reasons_table((TUNED,)) is None
    assert column(filter_table(SUMMARY.filtered), "Reason") == ["truncated", "bad_confidence"]
    assert filter_table({}) is None


def test_seeds_table_gives_each_seed_and_the_mean_over_seeds() -> None:
    rows = [(0, "Base", SCORES[0]), (0, "Tuned", SCORES[1]), (1, "Base", SCORES[1]), (1, "Tuned", SCORES[1])]
    lines = seeds_table([SeedResult(*row) for row in rows]).splitlines()
    body = [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")
    ][2:]
    assert [row[:2] for row in body] == [
        ["0", "Base"], ["0", "Tuned"], ["1", "Base"], ["1", "Tuned"], ["mean", "Base"], ["mean", "Tuned"]
    ]  # fmt: skip
    first, second = (score["splits"]["mean over datasets"] for score in SCORES)
    for place, key in enumerate(("pass@1", "auroc", "brier", "ece", "ece_pooled"), start=2):
        assert body[0][place] == f"{first[key]:.3f}"
        assert body[4][place] == f"{(first[key] + second[key]) / 2:.3f}"


def test_report_writes_page_markdown_and_figures_and_leaves_nothing_else(tmp_path: Path) -> None:
    found = write_report(SUMMARY, tmp_path / "report")
    assert found == tmp_path / "report" / "report.html"
    files = {str(path.relative_to(found.parent)) for path in found.parent.rglob("*") if path.is_file()}
    assert files == {
        "report.html",
        "report.md",
        *(f"figures/{name}.svg" for name in ("confidence", "reliability", "targets")),
    }


def test_both_formats_show_every_number_of_the_tables(tmp_path: Path) -> None:
    html = write_report(SUMMARY, tmp_path).read_text()
    markdown = (tmp_path / "report.md").read_text()
    for table in (*headline_tables(LABELS, SCORES), cost_table(SUMMARY.costs)):
        for row in table.rows:
            for cell in row:
                assert f">{cell.text}</td>" in html
            texts = [f"**{cell.text}**" if cell.best else cell.text for cell in row]
            assert f"| {' | '.join(texts)} |" in markdown


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_report(SUMMARY, tmp_path / "a"), write_report(SUMMARY, tmp_path / "b")
    for path in first.parent.rglob("*.*"):
        assert path.read_bytes() == (second.parent / path.relative_to(first.parent)).read_bytes(), path.name


def test_row_order_does_not_change_the_page(tmp_path: Path) -> None:
    shuffled = tuple(ModelResult(model.label, model.rows.reverse()) for model in SUMMARY.models)
    first = write_report(SUMMARY, tmp_path / "a")
    assert first.read_bytes() == write_report(replace(SUMMARY, models=shuffled), tmp_path / "b").read_bytes()


def test_a_run_without_models_is_refused_and_one_without_extras_is_shown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no evaluated model"):
        write_report(replace(SUMMARY, models=()), tmp_path)
    bare = replace(SUMMARY, models=(TUNED,), targets=None, filtered={}, costs=(), recipe_yaml="", command="")
    html = write_report(bare, tmp_path).read_text()
    assert "Confidence targets" not in html and "Cost per stage" not in html


def test_the_page_says_how_to_read_pooled_ece(tmp_path: Path) -> None:
    html = write_report(SUMMARY, tmp_path).read_text()
    assert "pooled ECE of 0" in html and "10 bins, [k/10,(k+1)/10), 1.0 in the last" in html


def test_reliability_bars_are_the_bins_of_ece(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[float]] = []
    monkeypatch.setattr(figures, "bars", lambda _ax, _left, height, *_: drawn.append(height))
    figures.reliability_diagrams([BASE])
    rows = BASE.rows.with_columns(pl.col("confidence").fill_null(0.0))
    table = ConfidenceTable.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy())
    filled = [part for part in reliability_bins(table) if part.count]
    assert drawn == [[part.accuracy for part in filled], [part.count for part in filled]]


def test_distribution_bars_hold_every_readable_response(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[float]] = []
    monkeypatch.setattr(figures, "bars", lambda _ax, _left, height, *_, **__: drawn.append(height))
    figures.confidence_distribution([BASE])
    right, wrong = (sum(heights) for heights in drawn)
    readable = BASE.rows.filter(pl.col("confidence").is_not_null())
    assert right == pytest.approx(readable["correct"].mean())
    assert right + wrong == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_figures_have_a_panel_per_model_and_text_as_text(count: int) -> None:
    models = [ModelResult(f"model {index}", TUNED.rows) for index in range(count)]
    for svg in (figures.confidence_distribution(models), figures.reliability_diagrams(models)):
        assert len(set(re.findall(r"model \d", svg))) == count
        assert "<metadata" not in svg and "DOCTYPE" not in svg


@pytest.mark.filterwarnings("error")
def test_labels_in_any_script_are_drawn_without_a_warning() -> None:
    assert "模型 ✅ ا" in figures.confidence_distribution([ModelResult("模型 ✅ ا", TUNED.rows)])


def test_targets_may_be_words_and_confidences_may_be_all_unreadable() -> None:
    svg = figures.target_histogram(TargetHistogram({"low": 3, "high": 5}, {"low": 3, "high": 3}))
    assert ">low<" in svg and "8 responses" in svg
    unread = BASE.rows.with_columns(confidence=pl.lit(None, dtype=pl.Float64))
    assert "no readable confidence" in figures.confidence_distribution([ModelResult("x", unread)])
