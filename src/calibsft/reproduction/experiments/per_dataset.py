"""Per-dataset results: every benchmark alone, and in how many pairs of a method and a benchmark CalibSFT helps."""

import numpy as np

from calibsft.reproduction.arms import ALONE, FIVE, FROM_BASE, FROM_CALIBSFT, pairs
from calibsft.reproduction.experiment import Cells, Experiment, by_split
from calibsft.reproduction.experiments.single_benchmarks import overconfidence
from calibsft.reproduction.quantity import Quantity, count_of, exact, mean_of
from calibsft.reproduction.roles import roles
from calibsft.reproduction.study import SPLITS, Study

METRICS = ("pass@1", "auroc", "brier", "ece")
ROWS = {**ALONE, **pairs()}
PAIRS = "Pairs"
# The paper's bound for "severely over-confident", and how many benchmarks it names.
SEVERE, NAMED = 0.25, 6
# A metric, whether lower or higher is better, and how its column of pairs ends.
COUNTED = {"ece": ("lower", -1), "brier": ("lower", -1), "auroc": ("higher", 1)}
SINGLE = "high-accuracy-ood"


def measure(study: Study) -> Cells:
    cells = by_split(study, ROWS, METRICS)
    splits = study.model().scores[0].splits
    single = roles(study)[SINGLE]
    for row, pipeline in ROWS.items():
        model = study.model(*pipeline)
        for name in (name for split in SPLITS for name in splits[split]):
            cells[row] |= {f"{name}.{metric}": model.of(name, metric) for metric in METRICS}
        cells[row] |= {f"{SINGLE}.{metric}": model.of(single, metric) for metric in (*METRICS, "top3")}
        cells[row][f"{SINGLE}.gap"] = np.abs(overconfidence(model, single))
    cells[PAIRS] = _pairs(study, splits)
    return cells


def _pairs(study: Study, splits: dict[str, list[str]]) -> dict[str, Quantity]:
    everything = [name for split in SPLITS for name in splits[split]]
    found: dict[str, Quantity] = {}
    for prefix, names in {"": everything, **{f"{split}.": splits[split] for split in SPLITS}}.items():
        found |= {f"{prefix}{key}": value for key, value in _counts(study, names).items()}
    six = sorted(everything, key=lambda name: _mean_ece(study, name))[-NAMED:]
    counts = _counts(study, six)
    found |= {f"six.{metric}.lower": counts[f"{metric}.lower"] for metric in ("ece", "brier")}
    return found | {"six.pairs": counts["pairs"]} | _severe(study, everything)


def _counts(study: Study, names: list[str]) -> dict[str, Quantity]:
    """In how many pairs CalibSFT improves each metric, and of how many."""
    found = {}
    for metric, (word, sign) in COUNTED.items():
        better = [sign * _gain(study, method, name, metric) > 0 for method in FIVE for name in names]
        found[f"{metric}.{word}"] = count_of(better)
    return {**found, "pairs": exact(len(FIVE) * len(names))}


def _gain(study: Study, method: str, name: str, metric: str) -> Quantity:
    """The metric from CalibSFT less that from the base."""
    after, before = (study.model(*arms[method]).of(name, metric) for arms in (FROM_CALIBSFT, FROM_BASE))
    return after - before


def _mean_ece(study: Study, name: str) -> float:
    return float(np.mean([study.model(*FROM_BASE[method]).of(name, "ece")[:, 0].mean() for method in FIVE]))


def _severe(study: Study, names: list[str]) -> dict[str, Quantity]:
    """Pairs whose ECE from the base exceeds 0.25, and the others; chosen once, by the mean over seeds."""
    before = {
        (method, name): float(study.model(*FROM_BASE[method]).of(name, "ece")[:, 0].mean())
        for method in FIVE
        for name in names
    }
    severe = [pair for pair, ece in before.items() if ece > SEVERE]
    other = [pair for pair, ece in before.items() if ece <= SEVERE]
    found: dict[str, Quantity] = {"overconfident.pairs": exact(len(severe))}
    if severe:
        found |= {
            f"overconfident.{metric}.lower": count_of([_gain(study, *pair, metric) < 0 for pair in severe])
            for metric in ("ece", "brier")
        }
        found["overconfident.ece.gain"] = -mean_of([_gain(study, *pair, "ece") for pair in severe])
    if other:
        found["other.ece.gain"] = -mean_of([_gain(study, *pair, "ece") for pair in other])
    return found


PER_DATASET = Experiment(
    "per-dataset",
    "Per-dataset results",
    "Tables appendix_id_results, appendix_ood_results",
    tuple(ROWS.values()),
    measure,
    (),
    "Below, every benchmark has its own table.",
)
