"""Downstream decisions: certified coverage under risk control, and routing to a stronger model, each by both procedures."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from calibsft.artifacts import shards
from calibsft.decisions.held_out import answered_held_out, perfect_ranking, routed_held_out
from calibsft.decisions.procedures import FIXED_SEQUENCE, UNION
from calibsft.decisions.routing import Outcome
from calibsft.evaluation import rows_without_text
from calibsft.metrics.metric import Better, Column, percent
from calibsft.report.figures.coverage import COVERAGE
from calibsft.reproduction.arms import FIVE, WITH, add_means, pairs
from calibsft.reproduction.drawings import evaluated
from calibsft.reproduction.experiment import Cells, Drawing, Experiment
from calibsft.reproduction.quantity import Quantity, by_seed, count_of, exact, mean_of
from calibsft.reproduction.study import SPLITS, Pipeline, Study, Trained
from calibsft.responses.actionable import actionable
from calibsft.schema import KEYS, QUESTION_KEYS

RISKS = (0.1, 0.2)
# The budgets of the paper's curve.
CURVE = tuple(round(0.05 * step, 2) for step in range(1, 11))
TOLERANCES = (0.01, 0.02)
STRONG: Pipeline = ("base@strong",)
FOUR = ("RLCR", "ReDoubt", "CoCA", "DCPO")
PROCEDURES = {"": UNION, ".fixed-sequence": FIXED_SEQUENCE}


def control(study: Study) -> Cells:
    cells: Cells = {}
    for row, pipeline in pairs().items():
        model = study.model(*pipeline)
        cells[row] = {}
        for split in SPLITS:
            cells[row] |= _coverage(model, split)
    for method in FIVE:
        for split in SPLITS:
            cells[method + WITH][f"{split}.budgets.not_lower"] = count_of(
                [
                    cells[method + WITH][f"{split}.coverage@{risk:g}"]
                    >= cells[method][f"{split}.coverage@{risk:g}"]
                    for risk in CURVE
                ]
            )
            for risk in RISKS:
                column = f"{split}.coverage@{risk:g}"
                cells[method + WITH][f"{split}.gain@{risk:g}"] = (
                    cells[method + WITH][column] - cells[method][column]
                )
    mean = {column: mean_of([cells[m + WITH][column] for m in FIVE]) for column in cells[FIVE[0] + WITH]}
    cells["Mean of five" + WITH] = mean
    cells["Budgets"] = {"count": exact(len(CURVE))}
    return cells


def _coverage(model: Trained, split: str) -> dict[str, Quantity]:
    """Certified coverage and risk on the holdout, by the paper's procedure and by the fixed sequence."""
    found: dict[str, list[float]] = {}
    for folder in model.folders("evaluation"):
        rows = _rows(folder).filter(split=split)
        for end, procedure in PROCEDURES.items():
            answered = answered_held_out(
                rows["confidence"], rows["correct"], rows["question"], CURVE, procedure=procedure
            )
            coverage = answered.coverage.mean(axis=0)
            # The halves in which something is accepted; the others say nothing about the risk.
            accepting = np.ma.masked_invalid(answered.risk).mean(axis=0).filled(np.nan)
            for at, risk in enumerate(CURVE):
                found.setdefault(f"{split}.coverage@{risk:g}{end}", []).append(coverage[at])
                found.setdefault(f"{split}.risk@{risk:g}{end}", []).append(accepting[at])
            found.setdefault(f"{split}.coverage.curve{end}", []).append(coverage.mean())
        accuracy = rows["correct"].mean()
        for risk in RISKS:
            perfect = perfect_ranking(float(str(accuracy)), risk)
            found.setdefault(f"{split}.perfect@{risk:g}", []).append(perfect)
    return {column: by_seed(values) for column, values in found.items()}


def _rows(folder: Path) -> pl.DataFrame:
    """Graded responses with the confidences that a decision may act on."""
    rows = rows_without_text(folder).drop_nulls("correct")
    question = pl.concat_str(QUESTION_KEYS, separator=" ")
    return rows.with_columns(question=question, confidence=actionable(rows))


def route(study: Study) -> Cells:
    strong = study.model(*STRONG).folders("evaluation")[0]
    cells: Cells = {}
    for row, pipeline in pairs(FOUR).items():
        folders = study.model(*pipeline).folders("evaluation")
        cells[row] = _routed([_joined(folder, strong) for folder in folders])
    add_means(cells, FOUR, "four")
    cells["Tolerance"] = {f"eps{tolerance:g}": exact(tolerance) for tolerance in TOLERANCES}
    for tolerance in TOLERANCES:
        column = f"eps{tolerance:g}.deferred"
        gain = cells["Mean of four"][column] - cells["Mean of four" + WITH][column]
        cells["Mean of four" + WITH][f"{column}.gain"] = gain
    return cells


def _first(rows: pl.DataFrame) -> pl.DataFrame:
    """One response to each question, the first."""
    return rows.filter(pl.col("sample") == pl.col("sample").min().over(QUESTION_KEYS))


def _joined(local: Path, strong: Path) -> pl.DataFrame:
    """The questions in distribution with one response of each model, and the tokens of the strong one."""
    tokens = pl.scan_parquet(shards(strong / "rollouts")).select(*KEYS, tokens=pl.col("token_ids").list.len())
    there = _first(_rows(strong)).join(tokens.collect(), on=KEYS)
    here = _first(_rows(local)).filter(split="id")
    return here.join(
        there.select("question", "tokens", strong="correct"), on="question", maintain_order="left"
    )


def _routed(tables: Sequence[pl.DataFrame]) -> dict[str, Quantity]:
    found: dict[str, list[float]] = {}
    for rows in tables:
        for tolerance in TOLERANCES:
            for end, procedure in PROCEDURES.items():
                outcomes = routed_held_out(
                    rows["confidence"],
                    rows["correct"],
                    rows["strong"],
                    rows["question"],
                    tolerance,
                    procedure=procedure,
                    strong_tokens=rows["tokens"],
                )
                for name, value in _means(outcomes).items():
                    found.setdefault(f"eps{tolerance:g}.{name}{end}", []).append(value)
    return {column: by_seed(values) for column, values in found.items()}


def _means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    return {
        "deferred": float(np.mean([one.deferred for one in outcomes])),
        "tokens_saved": float(np.mean([one.tokens_saved or 0 for one in outcomes])),
        "accuracy": float(np.mean([one.accuracy for one in outcomes])),
        # Of the halves in which something is kept: who defers everything loses nothing.
        "loss": float(np.mean([one.net_loss for one in outcomes if one.deferred < 1] or [np.nan])),
    }


RISK_CONTROL = Experiment(
    "risk-control",
    "Selective risk control",
    "Table risk_control, Figure risk_control",
    tuple(pairs().values()),
    control,
    tuple(
        Column(
            f"{split}.coverage@{risk:g}{end}",
            f"{split.upper()} coverage, risk ≤ {risk:g}{title}",
            "higher",
            percent,
        )
        for split in SPLITS
        for risk in RISKS
        for end, title in (("", ""), (".fixed-sequence", ", fixed sequence"))
    ),
    "Mean over ten random halves of the questions. Columns without a note use the paper's union bound.",
    tuple(
        Drawing(f"coverage-{split}", COVERAGE, partial(evaluated, rows=pairs(), part=split))
        for split in SPLITS
    ),
)
SHOWN: tuple[tuple[str, str, Better], ...] = (
    ("deferred", "Deferred", "lower"),
    ("tokens_saved", "Tokens saved", "higher"),
    ("accuracy", "Accuracy", "higher"),
)
ROUTING = Experiment(
    "routing",
    "Routing to a stronger model",
    "Table cascade",
    (*pairs(FOUR).values(), STRONG),
    route,
    tuple(
        Column(f"eps{tolerance:g}.{name}{end}", f"{title}, ε = {tolerance:g}{words}", better, percent)
        for tolerance in TOLERANCES
        for name, title, better in SHOWN
        for end, words in (("", ""), (".fixed-sequence", ", fixed sequence"))
    ),
    "The strong model is a base model that was trained longer.",
)
