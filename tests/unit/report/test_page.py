"""Reports show the numbers of `metrics`, mark the best, and write whole files with the same bytes each time."""

from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import evaluate, score_table
from calibsft.report.columns import COMPARED, duration
from calibsft.report.comparisons import difference_tables, estimator_table, prior_table
from calibsft.report.markup import Cell
from calibsft.report.page import write_page, write_report
from calibsft.report.seed_tables import each_seed_table, spread_table
from calibsft.report.summary import (
    ModelResult,
    RunSummary,
    SeedResult,
    StageCost,
    TrainingSet,
)
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
    training_sets=(
        TrainingSet(
            "Base",
            before={"0.10": 30, "0.37": 4, "1.00": 50},
            after={"0.10": 4, "0.37": 4, "1.00": 4},
            filtered={"bad_confidence": 3, "truncated": 1200},
        ),
    ),
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


def test_a_model_that_states_no_readable_confidence_is_never_the_best_calibrated_one() -> None:
    unreadable = pl.lit(None, BASE.rows.schema["confidence"])
    silent = score_table(BASE.rows.with_columns(confidence=unreadable, correct=pl.lit(False)))
    inside = headline_tables(["Silent", *LABELS], [silent, *SCORES])[0]
    place = inside.header.index("Brier ↓")
    assert inside.rows[0][place].text == "0.000"
    assert [row[place].best for row in inside.rows] == [False, False, True]


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
    assert [cell.text for cell in outside.rows[0][1:]] == ["–"] * 8
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
    assert column(filter_table(SUMMARY.training_sets), "Reason") == ["truncated", "bad_confidence"]
    assert filter_table(()) is None


def test_seeds_are_shown_each_and_as_mean_with_the_deviation_of_a_sample() -> None:
    rows = [(None, "Base", SCORES[0]), (0, "Tuned", SCORES[0]), (1, "Tuned", SCORES[1])]
    results = [SeedResult(*row) for row in rows]
    each, spread = each_seed_table(results), spread_table(results)
    assert spread is not None and spread_table(results[:2]) is None
    assert [[cell.text for cell in row[:2]] for row in each.rows] == [
        ["–", "Base"],
        ["0", "Tuned"],
        ["1", "Tuned"],
    ]
    assert [row[0].text for row in spread.rows] == ["Base", "Tuned"]
    first, second = (score["splits"]["mean over datasets"] for score in SCORES)
    for place, key in enumerate(("pass@1", "auroc", "brier", "ece", "ece_pooled"), start=1):
        values = first[key], second[key]
        assert each.rows[2][place + 1].text == f"{second[key]:.3f}"
        base, tuned = (row[place] for row in spread.rows)
        assert (base.text, base.span) == (f"{first[key]:.3f}", "")
        assert (tuned.text, tuned.span) == (f"{mean(values):.3f}", f"± {stdev(values):.3f}")


def test_report_writes_page_markdown_and_figures_and_leaves_nothing_else(tmp_path: Path) -> None:
    found = write_report(SUMMARY, tmp_path / "report")
    assert found == tmp_path / "report" / "report.html"
    files = {str(path.relative_to(found.parent)) for path in found.parent.rglob("*") if path.is_file()}
    assert files == {
        "report.html",
        "report.md",
        *(
            f"figures/{name}{theme}.{kind}"
            for name in (
                "confidence",
                "reliability",
                "reliability-curve",
                "correlation",
                "coverage",
                "targets",
            )
            for theme in ("", "-dark")
            for kind in ("svg", "png")
        ),
    }


def test_both_formats_show_every_number_of_the_tables(tmp_path: Path) -> None:
    html = write_report(SUMMARY, tmp_path, ["svg"]).read_text()
    markdown = (tmp_path / "report.md").read_text()
    scores = [score_table(model.rows, True, COMPARED) for model in (BASE, TUNED)]
    for table in (*headline_tables(LABELS, scores), cost_table(SUMMARY.costs)):
        for row in table.rows:
            for cell in row:
                below = f"<small>{cell.span}</small>" if cell.span else ""
                assert f">{cell.text}{below}</td>" in html
            texts = [f"**{cell.text}**" if cell.best else cell.text for cell in row]
            spans = [f" ({cell.span})" if cell.span else "" for cell in row]
            assert f"| {' | '.join(map(''.join, zip(texts, spans, strict=True)))} |" in markdown


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_report(SUMMARY, tmp_path / name, ["svg"]) for name in "ab")
    for path in first.parent.rglob("*.*"):
        assert path.read_bytes() == (second.parent / path.relative_to(first.parent)).read_bytes(), path.name


def test_row_order_does_not_change_the_page(tmp_path: Path) -> None:
    shuffled = tuple(ModelResult(model.label, model.rows.reverse()) for model in SUMMARY.models)
    first = write_page(SUMMARY, tmp_path / "a.html")
    assert (
        first.read_bytes() == write_page(replace(SUMMARY, models=shuffled), tmp_path / "b.html").read_bytes()
    )


def test_a_run_without_models_is_refused_and_one_without_extras_is_shown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no evaluated model"):
        write_report(replace(SUMMARY, models=()), tmp_path)
    bare = replace(SUMMARY, models=(TUNED,), training_sets=(), costs=(), recipe_yaml="", command="")
    html = write_page(bare, tmp_path / "bare.html").read_text()
    assert "Confidence targets" not in html and "Cost per stage" not in html


def test_the_page_says_how_to_read_pooled_ece(tmp_path: Path) -> None:
    html = write_report(SUMMARY, tmp_path).read_text()
    assert "pooled ECE of 0" in html and "10 bins, [k/10,(k+1)/10), 1.0 in the last" in html


def test_intervals_stand_beside_the_figures_that_have_one() -> None:
    scores = [score_table(BASE.rows, True, COMPARED)]
    row = headline_tables(["Base"], scores)[0].rows[0]
    low, high = scores[0]["splits"]["id"]["intervals"]["brier"]
    spans = {
        title: cell.span for title, cell in zip(headline_tables(["Base"], scores)[0].header, row, strict=True)
    }
    assert spans["Brier ↓"] == f"{low:.3f} – {high:.3f}"
    assert spans["ECE, pooled ↓"] == spans["Effective support"] == spans["Model"] == ""


def test_what_calibsft_changes_is_a_paired_difference_of_the_headline(tmp_path: Path) -> None:
    after = replace(TUNED, label="After", counterpart="Base", calibrated=True)
    inside, outside = difference_tables((BASE, after), ["id", "ood"])
    assert outside.title == "What CalibSFT changes, out of distribution"
    assert (
        inside.title == "What CalibSFT changes, in distribution" and inside.rows[0][0].text == "After − Base"
    )
    means = [score["splits"]["id"] for score in SCORES]
    for title, key in {"Pass@1 ↑": "pass@1", "AUROC ↑": "auroc", "Brier ↓": "brier", "ECE ↓": "ece"}.items():
        value = means[1][key] - means[0][key]
        assert number(column(inside, title)[0]) == pytest.approx(value, abs=5e-4), title
    assert difference_tables((BASE, TUNED), ["id"]) == []
    assert (
        "What CalibSFT changes"
        in write_page(replace(SUMMARY, models=(BASE, after)), tmp_path / "p.html").read_text()
    )


def test_a_change_is_marked_where_its_whole_interval_is_better_or_worse() -> None:
    blind, sighted = ModelResult("Blind", many(0.9, 0)), ModelResult("Sighted", many(0.05, 0.9))
    for ours, other, better in ((sighted, blind, True), (blind, sighted, False)):
        (table,) = difference_tables((replace(ours, counterpart=other.label), other), ["id"])
        cells = dict(zip(table.header, table.rows[0], strict=True))
        low, high = map(number, cells["Brier ↓"].span.split(" to "))
        assert low <= number(cells["Brier ↓"].text) <= high and (high < 0 if better else low > 0)
        assert (cells["Brier ↓"].best, cells["Brier ↓"].worse) == (better, not better)
        assert (cells["AUROC ↑"].best, cells["AUROC ↑"].worse) == (better, not better)
        assert cells["Pass@1 ↑"] == Cell("0.000", span="0.000 to 0.000")


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def many(confidence: float, spread: float) -> pl.DataFrame:
    """200 responses, right where the confidence is above its mean if there is any spread."""
    return rows_of(
        {"gsm8k": [confidence + spread * (i % 2) for i in range(200)]}, [i % 2 == 1 for i in range(200)]
    )


def test_models_that_rl_may_start_from_are_diagnosed(tmp_path: Path) -> None:
    models = (
        ModelResult("Base", many(0.9, 0)),
        ModelResult("Good", many(0.05, 0.9)),
        ModelResult("Base→RLCR", many(0.9, 0), starts_rl=False),
        ModelResult("Nothing", rows_of({"gsm8k": [None, None]}, [True, False])),
    )
    table = prior_table(models)
    assert column(table, "Model") == ["Base", "Good"]
    assert column(table, "Worth it") == ["yes", "no"]
    assert "AUROC 0.50" in column(table, "Why")[0] and column(table, "Top-1") == [
        "0.90: 100.0 %",
        "0.05: 50.0 %",
    ]
    assert prior_table(models[2:]) is None


def test_estimators_stand_side_by_side_without_a_best() -> None:
    found = {"verbalized": SCORES[0], "self-consistency": SCORES[1]}
    table = estimator_table((replace(BASE, estimators=found), TUNED))
    assert column(table, "Estimator") == ["verbalized", "self-consistency"]
    assert column(table, "AUROC ↑") == [
        f"{score['splits']['mean over datasets']['auroc']:.3f}" for score in SCORES
    ]
    assert not any(cell.best for row in table.rows for cell in row)
    assert estimator_table((TUNED,)) is None


def test_several_training_sets_are_told_apart() -> None:
    other = TrainingSet("Other", {"0.10": 1}, {"0.10": 1}, {"truncated": 2, "nested_tag": 1})
    table = filter_table((*SUMMARY.training_sets, other))
    assert table.header == ("Reason", "Base", "Other")
    assert [tuple(cell.text for cell in row) for row in table.rows] == [
        ("truncated", "1,200", "2"), ("bad_confidence", "3", "0"), ("nested_tag", "0", "1"),
    ]  # fmt: skip
