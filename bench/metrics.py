"""All metrics of ten million responses against scikit-learn, torchmetrics and netcal, each in a process of its own.

    pip install torchmetrics netcal      # not needed by calibsft itself
    python bench/metrics.py [--rows 10000000] [--rounds 3]

Four responses to each question, confidences of two decimals, in arrays on disk that are loaded before the clock starts. Ours is
timed as people call it, `evaluate(confidence, correct, question_id)` with every metric, and for the three metrics that the
peers have too: AUROC (scikit-learn, torchmetrics), Brier (scikit-learn), ECE (torchmetrics, netcal). PCE, Cap-Brier, E-AURC, RCE and
the diversity of values none of them has. Prints the seconds (median of the rounds), the peak memory of the process with its
imports and its data, and the ratios to the fastest peer per metric, added up.

Then the numbers are compared. On decimals the ECEs differ, because the peers' bin edges are multiples of a float: netcal puts 0.3,
0.6 and 0.7 below edges such as 0.30000000000000004; torchmetrics 0.3, and 1.0 into a bin of its own. Off the edges all
must agree to seven digits, which is what torchmetrics' single precision has.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SAMPLES = 4
OFF_THE_EDGES = "off the edges"
DECIMALS = "decimals"
COMMON = ("auroc", "brier", "ece")
AGREED = 1e-7
OURS, OURS_COMMON = "calibsft, every metric", "calibsft, AUROC, Brier, ECE"
Run = Callable[[np.ndarray, np.ndarray, np.ndarray], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("NAME", "DATA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.child[0], Path(options.child[1]))))
        return
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", WRITE, folder, str(options.rows)], check=True)
        rounds = [
            {name: in_a_process(name, Path(folder) / DECIMALS) for name in CONTENDERS}
            for _ in range(options.rounds)
        ]
        check = {name: in_a_process(name, Path(folder) / OFF_THE_EDGES) for name in CONTENDERS}
    seconds = {name: median(found[name]["seconds"] for found in rounds) for name in CONTENDERS}
    peaks = {name: max(found[name]["megabytes"] for found in rounds) for name in CONTENDERS}
    print_speed(options.rows, seconds, peaks)
    print_numbers(rounds[0], check)


# Another process makes the data, so that its memory is nobody's.
WRITE = f"""
import sys, numpy as np
from pathlib import Path
folder, rows = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
hundredths = rng.integers(0, 101, rows)
question = np.arange(rows) // {SAMPLES}
correct = rng.random(rows) < rng.random(101)[hundredths]
for name, confidence in (({DECIMALS!r}, hundredths / 100), ({OFF_THE_EDGES!r}, np.minimum(hundredths + 0.5, 99.5) / 100)):
    (folder / name).mkdir()
    for key, values in (("confidence", confidence), ("correct", correct), ("question", question)):
        np.save(folder / name / f"{{key}}.npy", values)
"""


def ours(confidence: np.ndarray, correct: np.ndarray, question: np.ndarray) -> dict[str, Any]:
    from calibsft.metrics import evaluate

    return dict(evaluate(confidence, correct, question))


def ours_common(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    from calibsft.metrics import ConfidenceTable
    from calibsft.metrics.registry import TABLE_METRICS

    table = ConfidenceTable.from_rows(confidence, correct)
    return {name: TABLE_METRICS[name](table) for name in COMMON}


def scikit_learn_auroc(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    return {"auroc": roc_auc_score(correct, confidence)}


def scikit_learn_brier(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import brier_score_loss

    return {"brier": brier_score_loss(correct, confidence)}


def torchmetrics_auroc(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    import torch
    from torchmetrics.functional.classification import binary_auroc

    return {"auroc": float(binary_auroc(torch.from_numpy(confidence), torch.from_numpy(correct).long()))}


def torchmetrics_ece(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    inputs = torch.from_numpy(confidence), torch.from_numpy(correct).long()
    return {"ece": float(binary_calibration_error(*inputs, n_bins=10))}


def netcal_ece(confidence: np.ndarray, correct: np.ndarray, _: np.ndarray) -> dict[str, Any]:
    from netcal.metrics import ECE

    return {"ece": float(ECE(bins=10).measure(confidence, correct.astype(int)))}


CONTENDERS: dict[str, Run] = {
    OURS: ours,
    OURS_COMMON: ours_common,
    "scikit-learn, AUROC": scikit_learn_auroc,
    "torchmetrics, AUROC": torchmetrics_auroc,
    "scikit-learn, Brier": scikit_learn_brier,
    "torchmetrics, ECE": torchmetrics_ece,
    "netcal, ECE": netcal_ece,
}


def in_a_process(name: str, data: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", name, str(data)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def measured(name: str, data: Path) -> dict[str, Any]:
    """What one contender finds, in how many seconds, and the peak memory of this process."""
    run = CONTENDERS[name]
    few = np.linspace(0, 1, 8), np.arange(8) % 2 == 0, np.arange(8)
    run(*few)  # imports, and whatever is set up once
    arrays = [np.load(data / f"{key}.npy") for key in ("confidence", "correct", "question")]
    began = time.perf_counter()
    found = run(*arrays)
    seconds = time.perf_counter() - began
    return {"found": found, "seconds": seconds, "megabytes": peak_megabytes()}


def peak_megabytes() -> float:
    """Of this process alone: what `resource` tells also holds the peak of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def print_speed(rows: int, seconds: dict[str, float], peaks: dict[str, float]) -> None:
    print(f"{rows:,} rows")
    for name in CONTENDERS:
        print(f"{name:<30} {seconds[name]:>7.2f} s  {peaks[name]:>6,.0f} MB")
    fastest = {
        metric: min(
            value
            for name, value in seconds.items()
            if name not in (OURS, OURS_COMMON) and name.lower().endswith(metric)
        )
        for metric in COMMON
    }
    peers = sum(fastest.values())
    print(f"{'fastest peer per metric':<30} {peers:>7.2f} s")
    for name in (OURS_COMMON, OURS):
        print(f"ratio to {name:<30} {peers / seconds[name]:5.1f}")


def print_numbers(decimals: dict[str, Any], off_the_edges: dict[str, Any]) -> None:
    for title, runs in ((DECIMALS, decimals), (OFF_THE_EDGES, off_the_edges)):
        exact = runs[OURS]["found"]
        print(f"{title}, difference to ours:")
        for name, run in runs.items():
            gaps = {
                metric: value - exact[metric] for metric, value in run["found"].items() if metric in COMMON
            }
            if title == OFF_THE_EDGES and any(abs(gap) > AGREED for gap in gaps.values()):
                raise SystemExit(f"{name} does not agree with ours: {gaps}")
            if name != OURS:
                print(f"  {name:<30} " + ", ".join(f"{metric} {gap:+.1e}" for metric, gap in gaps.items()))


if __name__ == "__main__":
    main()
