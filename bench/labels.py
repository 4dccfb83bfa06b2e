r"""Where the math verifier and published labels of real responses differ, as a Markdown table.

    python bench/labels.py [--data DIR]

Reads DIR/rollouts/math-500.jsonl.gz: responses of five systems to MATH-500 with `answer` (the gold) and `correct` (the
published label). Prints the counts per system and every distinct difference. Who is right is for the reader to judge.
"""

import argparse
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

from calibsft.responses import parse
from calibsft.schema import Grade
from calibsft.verify import GradeItem, grade_all


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data")
    source = parser.parse_args().data / "rollouts/math-500.jsonl.gz"
    if not source.is_file():
        parser.error(f"{source}: the responses are missing; give the folder that has rollouts/ with --data")
    with gzip.open(source, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    answers = [parse(row["response"]).answer or "" for row in rows]
    items = [GradeItem("math", row["answer"], answer) for row, answer in zip(rows, answers, strict=True)]
    ours = [grade is Grade.CORRECT for grade in grade_all(items)]
    counts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    different: Counter[tuple[bool, str, str]] = Counter()
    for row, item, right in zip(rows, items, ours, strict=True):
        label = bool(row["correct"])
        counts[row["model"]][right, label] += 1
        if right != label:
            different[right, row["answer"], item.answer.strip()] += 1
    print_counts(counts)
    print_differences(different)


def print_counts(counts: dict[str, Counter[tuple[bool, bool]]]) -> None:
    print("| system | both right | both wrong | only ours right | only theirs right | published | ours |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for system, found in counts.items():
        right, wrong = found[True, True], found[False, False]
        ours, theirs = found[True, False], found[False, True]
        rows = found.total()
        print(
            f"| {system} | {right} | {wrong} | {ours} | {theirs} | {(right + theirs) / rows:.3f} | {(right + ours) / rows:.3f} |"
        )


def print_differences(different: Counter[tuple[bool, str, str]]) -> None:
    for right, title in (
        (False, "Accepted by theirs, refused by ours"),
        (True, "Accepted by ours, refused by theirs"),
    ):
        print(f"\n{title}:")
        chosen = [(times, gold, answer) for (ours, gold, answer), times in different.items() if ours is right]
        for times, gold, answer in sorted(chosen, reverse=True):
            print(f"  {times:>3} x gold {gold!r}, answer {answer!r}")


if __name__ == "__main__":
    main()
