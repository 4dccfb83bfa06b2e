"""The table of metrics: what is shown where and in which order, as scripts and readers know it."""

import re
from pathlib import Path

from calibsft.metrics import METRICS, evaluate
from calibsft.metrics.registry import COMPARED, shown_in
from calibsft.report.columns import FURTHER_COLUMNS, SPLIT_COLUMNS
from calibsft.report.scores import COLUMNS

HEADLINE = ["pass@1", "auroc", "brier", "ece", "effective_support"]


def test_json_and_csv_keep_their_order() -> None:
    questions = "cap_brier"
    of_tables = [name for name in METRICS if name != questions]
    assert list(evaluate([0.5], [1], ["q"])) == ["n", *of_tables, questions, "ece_convention", "questions"]
    assert " ".join(COLUMNS) == (
        "n pass@1 mean_confidence auroc brier mcb dsc unc ece smooth_ece pce cap_brier e_aurc rce rce_tie support top1 top3"
        " effective_support extreme_share unreadable malformed pearson spearman"
    )


def test_every_view_shows_its_metrics_with_the_headline_first() -> None:
    assert [metric.name for metric in shown_in("card")] == HEADLINE
    assert [metric.name for metric in shown_in("report")] == HEADLINE
    assert [metric.name for metric in shown_in("terminal")] == [*HEADLINE, "top1"]


def test_a_report_shows_every_metric_once() -> None:
    shown = [column.name for column in (*SPLIT_COLUMNS, *FURTHER_COLUMNS)]
    assert len(shown) == len(set(shown)) and set(METRICS) <= set(shown)
    titles = [column.header for column in SPLIT_COLUMNS]
    assert titles[:5] == ["Pass@1 ↑", "AUROC ↑", "Brier ↓", "ECE, mean ↓", "ECE, pooled ↓"]


def test_intervals_are_of_what_is_judged_or_in_the_headline() -> None:
    assert " ".join(COMPARED) == (
        "pass@1 auroc brier mcb dsc ece smooth_ece pce cap_brier e_aurc rce rce_tie effective_support"
    )


def test_every_metric_is_described_in_lists_and_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs/metrics.md").read_text(encoding="utf-8")
    keys = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    assert set(METRICS) <= set(keys)
    assert all(metric.description for metric in METRICS.values())
