"""Seconds and peak memory of building a training set from a large run.

    python bench/build.py [--questions 37000] [--characters 2000] [--target calibsft] [--redraws 1]

Writes the rollouts and verdicts of a run first, 50 responses to each question in shards of 120 questions, with as many token
ids as a response of that length has, and made-up evidence. The defaults need some 5 GB of disk for a while. The peak is that of
the whole process with its imports.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from calibsft.artifacts import QUESTIONS, shard_name, write_parquet
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import render
from calibsft.targets import TARGETS
from calibsft.targets.build import build
from calibsft.targets.pool import pool_of_run

SAMPLES, SHARD = 50, 120
CHARACTERS_PER_TOKEN = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=37_000)
    parser.add_argument("--characters", type=int, default=2000)
    parser.add_argument("--target", default="calibsft")
    parser.add_argument("--redraws", type=int, default=1)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.target, given.redraws)
        return
    with TemporaryDirectory() as folder:
        write_run(Path(folder), given.questions, given.characters)
        again = ["--target", given.target, "--redraws", str(given.redraws), "--measure", folder]
        subprocess.run([sys.executable, __file__, *again], check=True)


def write_run(folder: Path, questions: int, characters: int) -> None:
    """The rollouts and verdicts of a run, and evidence, as the stages leave them."""
    random = np.random.default_rng(0)
    ids = [f"question-{number:06d}" for number in range(questions)]
    asked = pl.DataFrame({"dataset": "bench", "question_id": ids, "question": [f"{i}?" for i in ids]})
    write_parquet(folder / "rollouts" / QUESTIONS, asked)
    for number, start in enumerate(range(0, questions, SHARD)):
        write_shard(folder, shard_name(number), ids[start : start + SHARD], characters, random)


def write_shard(
    folder: Path, name: str, ids: list[str], characters: int, random: np.random.Generator
) -> None:
    rows = len(ids) * SAMPLES
    keys = pl.DataFrame(
        {
            "dataset": "bench",
            "question_id": np.repeat(ids, SAMPLES),
            "sample": np.tile(range(SAMPLES), len(ids)),
        }
    ).with_columns(pl.col("sample").cast(pl.Int32))
    letters = random.integers(97, 123, characters * 2, dtype=np.uint8).tobytes().decode()
    places = random.integers(0, characters, rows)
    said = [render(letters[place : place + characters], "7", "0.50") for place in places]
    tokens = random.integers(0, 150_000, (rows, characters // CHARACTERS_PER_TOKEN), dtype=np.int32)
    token_ids = pl.Series(tokens, dtype=pl.Array(pl.Int32, tokens.shape[1])).arr.to_list()
    texts = keys.with_columns(response=pl.Series(said), token_ids=token_ids, finished=pl.lit(True))
    correct = random.random(rows) < np.repeat(random.random(len(ids)), SAMPLES)
    ending, reason = pl.lit("finished"), pl.lit("ok")
    verdicts = keys.with_columns(correct=pl.Series(correct), reason=reason, ending=ending)
    counted = pl.Series(random.integers(1, 11, rows)), pl.lit(10)
    evidence = keys.with_columns(
        pl.Series("mean-logprob", -random.random(rows)),
        **{"cluster-share_k": counted[0], "cluster-share_n": counted[1], "judge-score_k": counted[0]},
    )
    for stage, table in (("rollouts", texts), ("verdicts", verdicts), ("evidence", evidence)):
        write_parquet(folder / stage / name, table)


def measure(folder: Path, name: str, redraws: int) -> None:
    began = time.perf_counter()
    settings = TARGETS[name].settings(name=name, redraws=redraws)
    evidence = pl.scan_parquet(folder / "evidence" / "part-*.parquet")
    pool = pool_of_run(folder / "rollouts", folder / "verdicts")
    summary = build(pool, settings, FORMATS["probability"], 0, "bench", folder / "out", evidence=evidence)
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {summary.responses:,} responses, {summary.rows:,} rows a draw, {redraws} draws")
    print(f"{seconds:.1f} s, {peak:.2f} GiB at the peak")


if __name__ == "__main__":
    main()
