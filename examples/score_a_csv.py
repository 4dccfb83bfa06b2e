"""Score another lab's CSV as it is: columns of other names, confidences in percent.

python score_a_csv.py [FILE --columns question_id=…,confidence=…,correct=…]
"""

import csv
import sys
from argparse import ArgumentParser
from pathlib import Path
from random import Random

import calibsft
from calibsft.errors import InputError

COLUMNS = "question_id=task,confidence=certainty,correct=passed"  # ours on the left


def make_file(path: Path) -> Path:
    """Synthetic responses of a model that is right less often than it says."""
    random = Random(0)
    with path.open("w", newline="") as out:
        write = csv.writer(out).writerow
        write(["task", "certainty", "passed"])
        for number in range(800):
            percent = random.choice([50, 60, 70, 80, 85, 90, 95, 99])
            passed = random.random() < (percent / 100) ** 2
            write([f"task-{number}", f"{percent}%", "yes" if passed else "no"])
    return path


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="default: a synthetic one")
    parser.add_argument("--columns", default=COLUMNS, help="what the file calls them; default: %(default)s")
    parser.add_argument("--scale", default="percent", help="or probability, or digit; default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("runs/example-score"), help="default: %(default)s")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.file or make_file(given.out / "theirs.csv")
    theirs = {"columns": given.columns.split(","), "scale": given.scale}

    # Intervals come from drawing questions, not responses, since responses to one question err together.
    found = calibsft.score(file, intervals=True, **theirs)["overall"]
    print(f"{file}: {found['n']:,} responses\n")
    for name, value in found.items():
        if isinstance(value, float):
            low, high = found["intervals"].get(name, (None, None))
            print(f"{name:18} {value:6.3f}", "" if low is None else f"  [{low:.3f}, {high:.3f}]")

    picture = calibsft.plot("reliability", file, out=given.out / "reliability.png", **theirs)
    print(f"\nfigure: {picture}")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:  # one sentence: what is wrong, where, and what to do
        sys.exit(f"Error: {error}")
