"""What confidences are good for, model by model: certified coverage and deferral of all models of some runs, in one table.

    python bench/decisions.py runs/tiny-rl-seeds0-1-2 --strong runs/strong/eval-rlvr

Calibrates on one random response per question of half of the questions and counts on all responses to the others, by both
procedures, ten random halves of every training seed: mean ± standard deviation over halves and seeds. Coverage is the share of
responses that are answered at a certified error rate; deferred is the share of questions that go to the strong model so that
the accuracy lost is bounded. Only questions of one split are taken, since a guarantee is for questions like those of
calibration.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from calibsft.artifacts import read_manifest
from calibsft.decisions import PROCEDURES, Spread, answered_held_out, perfect_ranking, routed_held_out
from calibsft.decisions.by_question import RANDOM
from calibsft.decisions.files import TOKENS, Calibration, read_calibration, read_routing
from calibsft.evaluation import ROWS
from calibsft.pipeline import recorded_order

Columns = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", type=Path, nargs="+", help="folders of runs; models of one title are taken together"
    )
    parser.add_argument(
        "--strong", type=Path, required=True, help="a strong model's evaluation on the same questions"
    )
    parser.add_argument("--risks", type=float, nargs="+", default=[0.2, 0.3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.02, 0.05])
    parser.add_argument("--split", default="id", help="questions to take: id or ood")
    given = parser.parse_args()
    models: dict[str, Columns] = defaultdict(lambda: defaultdict(list))
    for folder in (path for run in given.runs for path in evaluations(run)):
        manifest = read_manifest(folder)
        for column, values in measured(folder, given).items():
            models[manifest.get("title", manifest["label"])][column] += values
    print_table(models)


def evaluations(run: Path) -> list[Path]:
    """The evaluations of a run in the order of its recipe."""
    return [run / stage for stage in recorded_order(run) if (run / stage / ROWS).is_file()]


def measured(folder: Path, given: argparse.Namespace) -> Columns:
    """All columns of the table for one evaluation, with a value for every half."""
    local = of_split(read_calibration(folder, None), given.split)
    both = of_split(read_routing(folder, given.strong, None, RANDOM), given.split)
    accuracy = float(np.mean(local.rows["correct"].to_numpy()))
    found: Columns = {"Pass@1": [accuracy]}
    for risk in given.risks:
        name = f"coverage, risk ≤ {risk:g}"
        found |= {f"{name}: {procedure}": covered(local, risk, procedure) for procedure in PROCEDURES}
        found[f"{name}: perfect ranking"] = [perfect_ranking(accuracy, risk)]
    for epsilon in given.epsilons:
        name = f"deferred, ε = {epsilon:g}"
        found |= {f"{name}: {procedure}": deferred(both, epsilon, procedure) for procedure in PROCEDURES}
    return found


def of_split(calibration: Calibration, split: str) -> Calibration:
    keep = calibration.rows["split"] == split
    rows, questions = calibration.rows.filter(keep), calibration.questions.filter(keep)
    return replace(calibration, rows=rows, questions=questions)


def covered(local: Calibration, risk: float, procedure: str) -> list[float]:
    columns = local.rows["confidence"], local.rows["correct"], local.questions
    shares: list[float] = answered_held_out(*columns, [risk], procedure=procedure).coverage[:, 0].tolist()
    return shares


def deferred(both: Calibration, epsilon: float, procedure: str) -> list[float]:
    columns: Sequence[pl.Series] = both.rows.select(
        "confidence", "local_correct", "strong_correct"
    ).get_columns()
    tokens = both.rows[TOKENS]
    outcomes = routed_held_out(*columns, both.questions, epsilon, procedure=procedure, strong_tokens=tokens)
    return [outcome.deferred for outcome in outcomes]


def print_table(models: dict[str, Columns]) -> None:
    heads = list(next(iter(models.values())))
    print(f"| Model | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
    for label, columns in models.items():
        print(f"| {label} | {' | '.join(shown(columns[head]) for head in heads)} |")


def shown(values: Iterable[float]) -> str:
    """The mean; with its spread where there are several values."""
    listed = list(values)
    spread = Spread.of(listed)
    assert spread is not None
    return f"{spread.mean:.2f}" if len(listed) == 1 else f"{spread.mean:.2f} ± {spread.sd:.2f}"


if __name__ == "__main__":
    main()
