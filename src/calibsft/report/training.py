"""Read the files of trainings: what was trained on, the journal of RL, its evaluations on holdouts, and the gradient before it.

Knows the files of one stage folder; which folders there are is `runs`. Does not smooth or draw anything.
"""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import EVALS, GRADIENT, JOURNAL
from calibsft.artifacts.lineage import WARMUP
from calibsft.errors import InputError
from calibsft.report.columns import COMPARED
from calibsft.report.lineage import Lineage
from calibsft.report.summary import GradientShare, TrainingRun, TrainingSet
from calibsft.responses.formats import FORMATS
from calibsft.targets.summary import SUMMARY

SAMPLED = ("distinct_values", "confidence_entropy")


def read_training(folder: Path, manifest: dict[str, Any], lineage: Lineage) -> TrainingRun | None:
    """The steps and evaluations of an RL stage; None for another stage, and when it has no journal or an empty one."""
    if "method" not in manifest:  # a journal alone does not tell: CalibSFT keeps one too
        return None
    steps = _frame(_lines(folder / JOURNAL), {"step": pl.Int64}, (*COMPARED, *SAMPLED))
    if steps.is_empty():
        return None
    evaluated = [
        {"step": row["step"], "split": split, **metrics}
        for row in _lines(folder / EVALS)
        for split, metrics in row["splits"].items()
    ]
    evals = _frame(evaluated, {"step": pl.Int64, "split": pl.String}, COMPARED) if evaluated else None
    return TrainingRun(
        label=lineage.label,
        method=manifest["method"],
        start=lineage.start.label,
        calibrated=lineage.calibrated,
        steps=steps,
        evals=evals,
        seed=lineage.seed,
        warmed_up=lineage.warmed_up,
    )


def read_gradient(folder: Path, label: str) -> GradientShare:
    """How the gradient of the model called `label` is shared among confidence values, as a prior stage measured it."""
    path = folder / GRADIENT
    found = _object(path.read_text(encoding="utf-8"), str(path), folder)
    values = _frame(found["values"], {}, ("confidence", "probability", "gradient_share"))
    return GradientShare(label, found["contexts"], values)


def read_training_set(folder: Path, manifest: dict[str, Any], label: str) -> TrainingSet:
    """What a stage of targets counted in the responses of the model called `label`."""
    found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    before, after = _by_text(found["before"]), _by_text(found["after"])
    return TrainingSet(label, before, after, found["filtered"], manifest.get("step") == WARMUP)


def _by_text(histogram: dict[str, int]) -> dict[str, int]:
    """Counts by the two-decimal text of the exact target."""
    counts: Counter[str] = Counter()
    for exact, count in histogram.items():
        counts[FORMATS["probability"].render(Fraction(exact))] += count
    return counts


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, none when there is no such file."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_object(line, f"{path}, row {row}", path.parent) for row, line in enumerate(lines, start=1)]


def _object(text: str, where: str, folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{where}: not a JSON object, so the file is damaged; remove {folder} and rerun it")
    return found


def _frame(rows: list[dict[str, Any]], keys: dict[str, Any], numbers: tuple[str, ...]) -> pl.DataFrame:
    """The named columns of `rows`; a number that is absent or not a number is null."""
    schema = keys | dict.fromkeys(numbers, pl.Float64)
    cells = {name: [row.get(name) for row in rows] for name in schema}
    return pl.DataFrame(cells, schema=schema, strict=False).with_columns(pl.col(numbers).fill_nan(None))
