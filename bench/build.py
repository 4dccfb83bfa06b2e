"""Seconds and peak memory of `build`, `score` and `verify` on a run of the paper's size, and `build` beside plain pandas.

    python bench/build.py [--questions 36915] [--text-bytes 1000] [--tokens 250] [--target calibsft] [--redraws 1]
                          [--verify-fraction 0.05] [--pandas-questions 25000] [--folder DIR]

Writes the run first: 50 responses to each question, 1,845,750 by default, with so many bytes of text and token ids each, their
verdicts and made-up evidence. That takes some 2 GB of disk for a while. `verify` grades the responses to a fraction of the
questions, which takes memory for one shard at a time, and must find the verdicts that were made up. Pandas holds everything in
memory, so it gets a smaller run; its training set must be the same, row by row. The figures are those of whole processes with
their imports; processor seconds say more than wall time on a busy machine.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

WRITE = "import sys; from pathlib import Path; from large_run import write_run; write_run(Path(sys.argv[1]), *map(int, sys.argv[2:]))"
HERE = Path(__file__).parent
SAMPLES, ROUNDS = 50, 3


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    seconds: float
    processor: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s  {self.processor:7.1f} s of processor  peak {self.peak_mb:6,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=36_915)
    parser.add_argument("--text-bytes", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--target", default="calibsft")
    parser.add_argument("--redraws", type=int, default=1)
    parser.add_argument("--verify-fraction", type=float, default=0.05)
    parser.add_argument("--pandas-questions", type=int, default=25_000, help="0 leaves pandas out")
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.folder) as folder:
        large_run(Path(folder), given)
    if given.pandas_questions:
        with TemporaryDirectory(dir=given.folder) as folder:
            beside_pandas(Path(folder), given.pandas_questions, given.text_bytes, given.tokens)


def large_run(folder: Path, given: argparse.Namespace) -> None:
    graded, size = Path(folder, "fraction"), (given.text_bytes, given.tokens)
    fraction = max(1, round(given.questions * given.verify_fraction))
    write(folder, given.questions, *size)
    write(graded, fraction, *size)
    print(
        f"{given.questions * SAMPLES:,} responses of {given.text_bytes:,} bytes and {given.tokens:,} tokens"
    )
    wanted = ["--target", given.target, "--redraws", str(given.redraws)]
    evidence = [] if given.target in ("calibsft", "csft") else ["--evidence", str(folder / "evidence")]
    print(f"build   {build(folder, [*wanted, *evidence])}")
    print(f"score   {calibsft('score', folder / 'verdicts', '--json')}")
    checked = calibsft("verify", graded / "rollouts", "--out", graded / "again", "--json")
    print(f"verify  {checked}  of {fraction * SAMPLES:,} responses")
    require_equal(graded / "verdicts", graded / "again")


def beside_pandas(folder: Path, questions: int, text_bytes: int, tokens: int) -> None:
    write(folder, questions, text_bytes, tokens)
    costs = []
    for number in range(ROUNDS):
        out = folder / f"pandas-{number}"
        ours = build(folder, [], f"built-{number}")
        plain = measured([HERE / "plain_pandas.py", folder / "rollouts", folder / "verdicts", out])
        require_same_set(folder / f"built-{number}", out)
        costs.append((ours, plain))
    ours, plain = (min(found, key=lambda cost: cost.seconds) for found in zip(*costs, strict=True))
    print(
        f"\n{questions * SAMPLES:,} responses, the fastest of {ROUNDS} rounds; the training sets are the same"
    )
    print(f"build   {ours}\npandas  {plain}")
    print(
        f"{plain.seconds / ours.seconds:.1f} times faster, {plain.processor / ours.processor:.1f} in processor time"
    )


def write(folder: Path, *sizes: int) -> None:
    # In another process: what a process has taken up counts in the peak of those that it starts.
    subprocess.run([sys.executable, "-c", WRITE, folder, *map(str, sizes)], check=True, cwd=HERE)


def build(folder: Path, options: list[str], out: str = "built") -> Cost:
    made = folder / "rollouts", "--verdicts", folder / "verdicts"
    return calibsft("build", *made, "--out", folder / out, *options)


def calibsft(*words: str | Path) -> Cost:
    return measured(["-m", "calibsft", *words])


def measured(program: list[str | Path]) -> Cost:
    """What it takes to run a program of Python; its output is not shown."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, program))} failed")
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def require_equal(expected: Path, found: Path) -> None:
    import polars as pl

    rows = [pl.scan_parquet(folder / "part-*.parquet").collect() for folder in (expected, found)]
    if not rows[0].equals(rows[1]):
        raise SystemExit("verify gave other verdicts than those that were made up")


def require_same_set(ours: Path, plain: Path) -> None:
    """Refuse two training sets that differ in any cell."""
    import polars as pl

    if (ours / "sft.jsonl").read_bytes() != (plain / "sft.jsonl").read_bytes():
        raise SystemExit("sft.jsonl differs")
    for name in ("sft.parquet", "labels.parquet"):
        here, there = pl.read_parquet(ours / name), pl.read_parquet(plain / name)
        if not here.equals(there.select(pl.col(column).cast(kind) for column, kind in here.schema.items())):
            raise SystemExit(f"{name} differs")


if __name__ == "__main__":
    main()
