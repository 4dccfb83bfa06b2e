r"""Pairs per second of the math verifier against sequential math-verify calls, in one run, and under attack.

    python bench/verify.py [--data DIR] [--pairs 20000] [--rounds 3]

The pairs are real and repeat as 50 rollouts per question do. Questions, golds and answers come from DIR/rollouts: five
systems' responses to MATH-500. Per question, nine of ten answers are drawn from its own real answers, weighted by how often
they were given; the tenth comes from another question, for the long tail of rare wrong answers. That makes a few
distinct answers per question, of which the top one is most frequent. The seed is fixed.

The peer is what people write: math_verify.verify(math_verify.parse(gold), math_verify.parse(answer)) with its defaults, pair by
pair in one process, with $...$ around bare text as ours has. Every distinct difference between the verdicts is
listed. Then one answer in a hundred is replaced by a hostile one, each different from the others, and ours runs again: what the
attack costs, and whether any honest verdict changed. Starting our processes counts as our time.
"""

import argparse
import gzip
import json
import logging
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import math_verify

from calibsft.responses import parse
from calibsft.schema import Grade
from calibsft.verify import GradeItem, grade_all

SAMPLES = 50
SEED = 20_000
# N becomes another number each time, so that no two are equal.
HOSTILE = [
    "9^{9^{9^{N}}}", "9^9^9^N", "10^{10^{N}}", "(2^{N})^{(3^{40})^{50}}", "x^{x^{x^{x^{N}}}}", "e^{e^{e^{e^{N}}}}",
    "N000000!", "((((N!)!)!)!)!", "(10^{N})!", "N!!!!!!", r"\binom{10^9}{N0000}", r"\frac{(4000+N)!}{(2000+N)!}",
    r"\sum_{k=1}^{10^9} k^{N}", r"\sum_{k=1}^{N000} \frac{1}{k}", r"\prod_{k=1}^{N99999} k",
    r"\sum_{i=1}^{999}\sum_{j=1}^{999} \frac{i}{j+N}", r"\sum_{n=1}^{\infty} \frac{\sin(n^{N})}{n!}",
    r"\sum_{k=0}^{N}\binom{N}{k}x^k",
    "(x+y+z+1)^{N}", "(a+b+c+d+e+f)^{N}", "(x+1)^{4N}", r"(1+\sqrt{2}+\sqrt{3}+\sqrt{5})^{N}", "(1+i)^{4N}",
    r"\left(\frac{x+y}{x-y}+z\right)^{N}", "(x^{30}+y^{30}+1)^{37}-(x+N)^{40}", "(x-1)(x-2)(x-3)(x-4)(x-5)(x-6)(x-N)^{50}",
    r"\int_0^1 x^{N} \sin(x^{x}) e^{x^2} dx", r"\int \frac{1}{1+x^{N}} dx", r"\int_0^1\int_0^1 \frac{x^{y}}{1+xy+N} dx dy",
    r"\lim_{x \to 0} \frac{\sin(x)^{N}-x^{N}}{x^{40}}", r"\frac{d}{dx} \sin(\sin(\sin(\sin(x^{N}))))", r"\tan(\tan(\tan(\tan(N))))",
    r"\sqrt{1+\sqrt{2+\sqrt{3+\sqrt{4+\sqrt{5+\sqrt{N}}}}}}", r"\pi^{4N}", r"\cos(\frac{\pi}{N0001})",
    "(" * 18 + "1+N" + ")" * 18, r"\frac{1}{" * 15 + "N" + "}" * 15, "x_{N}" * 300, "x" * 1500 + "N", "1+" * 900 + "N",
    "(" + "1," * 600 + "N)", r"\{" + ",".join(map(str, range(300))) + r",N\}", r"[0,N)\cup" * 80 + "(3,4)",
    "7" * 10**6 + "N", r"\frac{1}{2}" * 10**5 + "N", "{" * 10**6 + "N", "9" * 900 + r"N \mod 7", "\\begin{pmatrix} 1 & N \\\\ 3 & 4 \\end{pmatrix}^{4000}",
    "__import__('os').system('sleep N')", r"$__import__('time').sleep(N)$", r"\text{exec('while True: N')}", "\0\u202e\ud800N" * 300,
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3, help="how often ours runs; the peer runs once")
    options = parser.parse_args()
    source = options.data / "rollouts/math-500.jsonl.gz"
    if not source.is_file():
        parser.error(f"{source}: the responses are missing; give the folder that has rollouts/ with --data")
    answers = read_answers(source)
    if not 0 < options.pairs <= len(answers) * SAMPLES:
        parser.error(f"--pairs {options.pairs}: the data allows 1 to {len(answers) * SAMPLES}")
    pairs = draw_pairs(answers, options.pairs)
    print(f"{len(pairs):,} pairs, {len(set(pairs)):,} distinct")
    grades, rate = ours(pairs, options.rounds)
    began = time.perf_counter()
    verdicts = theirs(pairs)
    peer = len(pairs) / (time.perf_counter() - began)
    for name, value in (("calibsft", rate), ("math-verify, sequential", peer)):
        print(f"{name:<34} {value:>10,.0f} pairs/s  ratio {rate / value:5.2f}")
    print_differences(pairs, grades, verdicts)
    under_attack(pairs, grades, rate, options.rounds)


def read_answers(source: Path) -> dict[tuple[str, str], Counter[str]]:
    """Per question and gold, how often each answer was given."""
    answers: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with gzip.open(source, "rt") as lines:
        for row in map(json.loads, lines):
            if answer := parse(row["response"]).answer:
                answers[row["id"], row["answer"]][answer.strip()] += 1
    return answers


def draw_pairs(answers: dict[tuple[str, str], Counter[str]], count: int) -> list[tuple[str, str]]:
    """`count` pairs of gold and answer, 50 in a row for each question."""
    rng = random.Random(SEED)
    everywhere = sorted({answer for given in answers.values() for answer in given})
    pairs = []
    for question in rng.sample(sorted(answers), -(-count // SAMPLES)):
        own = answers[question]
        for _ in range(SAMPLES):
            (answer,) = rng.choices(list(own), list(own.values()))
            pairs.append((question[1], rng.choice(everywhere) if rng.random() < 0.1 else answer))
    return pairs[:count]


def ours(pairs: list[tuple[str, str]], rounds: int) -> tuple[list[Grade], float]:
    """The grades, and the median rate of `rounds` runs, each with processes of its own."""
    items = [GradeItem("math", gold, answer) for gold, answer in pairs]
    rates = []
    for _ in range(rounds):
        began = time.perf_counter()
        grades = grade_all(items)
        rates.append(len(pairs) / (time.perf_counter() - began))
    return grades, median(rates)


def theirs(pairs: list[tuple[str, str]]) -> list[bool]:
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return [math_verify.verify(*map(math_verify.parse, map(delimited, pair))) for pair in pairs]


def delimited(text: str) -> str:
    return text if "$" in text or r"\boxed{" in text else f"${text}$"


def print_differences(pairs: list[tuple[str, str]], grades: list[Grade], verdicts: list[bool]) -> None:
    rows = zip(pairs, grades, verdicts, strict=True)
    different = Counter(row for row in rows if (row[1] is Grade.CORRECT) != row[2])
    print(f"{different.total()} verdicts differ, {len(different)} distinct" + (":" if different else ""))
    for ((gold, answer), grade, verdict), times in sorted(different.items()):
        print(f"  {times:>4} x gold {gold!r}, answer {answer!r}: {grade}, math-verify says {verdict}")


def under_attack(pairs: list[tuple[str, str]], grades: list[Grade], calm: float, rounds: int) -> None:
    rng = random.Random(SEED)
    places = sorted(rng.sample(range(len(pairs)), len(pairs) // 100))
    attacked = list(pairs)
    for number, place in enumerate(places):
        shape = HOSTILE[number % len(HOSTILE)]
        attacked[place] = (pairs[place][0], shape.replace("N", str(150 + number)))
    outcome, rate = ours(attacked, rounds)
    hostile = Counter(outcome[place] for place in places)
    changed = sum(
        before is not after
        for before, after, old, new in zip(grades, outcome, pairs, attacked, strict=True)
        if old == new
    )
    print(f"{'calibsft, 1 % hostile answers':<34} {rate:>10,.0f} pairs/s  loss {1 - rate / calm:5.1%}")
    print(f"{len(places)} hostile answers: " + ", ".join(f"{n} {g}" for g, n in sorted(hostile.items())))
    print(f"{changed} honest verdicts changed")


if __name__ == "__main__":
    main()
