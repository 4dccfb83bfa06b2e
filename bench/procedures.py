"""How much each procedure answers at the same guarantee: mean coverage over draws of calibration questions.

    python bench/procedures.py [--draws 400] [--questions 2000]

Calibrated: confidences spread over the whole range (Beta(1.04, 0.72)), right as often as they say. Narrow: confidences within
some tenths of each other, as models trained with RLCR have them, right more often than they say. Coverage is the share of
the calibration questions that the certified threshold answers, 0 where none is certified.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibsft.decisions.procedures import PROCEDURES
from calibsft.decisions.selective import DELTA, counted_risks

Draw = Callable[[np.random.Generator, int], tuple[NDArray[np.float64], NDArray[np.float64]]]


def calibrated(
    random: np.random.Generator, questions: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stated = random.beta(1.04, 0.72, questions)
    return stated, stated


def narrow(random: np.random.Generator, questions: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stated = random.normal(0.65, 0.08, questions).clip(0, 1)
    return stated, (0.75 + 1.5 * (stated - 0.65)).clip(0, 1)


POPULATIONS: dict[str, tuple[Draw, float]] = {
    "calibrated, 0.10": (calibrated, 0.10),
    "narrow, 0.15": (narrow, 0.15),
}


def coverage(draw: Draw, risk: float, procedure: str, draws: int, questions: int) -> float:
    random, covered = np.random.default_rng(0), 0.0
    for number in range(draws):
        stated, accuracy = draw(random, questions)
        right = random.random(questions) < accuracy
        table = counted_risks(np.floor(100 * stated).astype(np.int64), right, DELTA, procedure, seed=number)
        lowest = table.lowest(risk)
        covered += 0.0 if lowest is None else table.counts.n[lowest] / questions
    return covered / draws


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--questions", type=int, default=2000)
    given = parser.parse_args()
    print(f"| population, risk | {' | '.join(PROCEDURES)} |")
    print("|---|" + "---:|" * len(PROCEDURES))
    for name, (draw, risk) in POPULATIONS.items():
        found = [coverage(draw, risk, one, given.draws, given.questions) for one in PROCEDURES]
        print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in found) + " |")


if __name__ == "__main__":
    main()
