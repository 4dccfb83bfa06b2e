"""Verify and score a gzip of chat logs as it is: answers and confidences are read out of the texts.

python verify_chat_logs.py [LOG]
"""

import gzip
import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from random import Random

import polars as pl

import calibsft
from calibsft.errors import InputError


def make_log(path: Path) -> Path:
    """Synthetic chats about halves of numbers; the model writes them in three ways, and not always a confidence."""
    random = Random(0)
    lines = []
    for number in range(3, 203):
        right = random.random() < 0.7
        twice = number if right else number + 2
        answer = random.choice([f"{twice}/2", f"{twice / 2}", rf"\frac{{{twice}}}{{2}}"])
        stated = random.choice(["0.90", "0.95", "1.00"] if right else ["0.40", "0.80", "0.95"])
        ending = f"<confidence>{stated}</confidence>" if number % 20 else "I am quite sure."
        response = f"<think>{number} divided by 2</think> <answer>{answer}</answer> {ending}"
        question = {"role": "user", "content": f"What is half of {number}?"}
        turns = [question, {"role": "assistant", "content": response}]
        lines.append(json.dumps({"messages": turns, "gold": f"{number / 2}"}))
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "log", type=Path, nargs="?", help="`messages` and `gold` per line; default: a synthetic one"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/example-chats"), help="default: %(default)s")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    log = given.log or make_log(given.out / "chats.jsonl.gz")

    # `fresh` grades again where an earlier run of this script left its verdicts.
    verdicts = calibsft.verify(responses=log, out=given.out / "verdicts", fresh=True)
    rows = pl.read_parquet(verdicts.path / "part-*.parquet")
    print(f"{log}: {len(rows):,} chats, {rows['correct'].sum():,} right\n")
    for answer, grade, confidence in rows.select("answer", "grade", "confidence").head(5).iter_rows():
        print(f"{answer!r:18} {grade:10} confidence {confidence}")

    # A response without a readable confidence is not dropped in silence: it counts as 0, and its reason is named.
    malformed = rows.filter(pl.col("reason") != "ok")["reason"].value_counts(sort=True)
    print("\nmalformed:", dict(malformed.iter_rows()))
    for name, value in calibsft.score(verdicts.path)["overall"].items():
        if name in ("pass@1", "mean_confidence", "auroc", "brier", "ece"):
            print(f"{name:15} {value:.3f}")


if __name__ == "__main__":  # needed: answers are graded in processes of their own, which import this file
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"Error: {error}")
