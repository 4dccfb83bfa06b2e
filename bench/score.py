"""Seconds and peak memory of `calibsft score` on files of ten million rows.

    python bench/score.py [--rows 10000000] [--draw]

Writes the files first: four responses to each question, confidences of two decimals, four datasets, as Parquet, CSV, gzipped CSV and
JSONL; a CSV without question ids; and a JSONL whose rows also have a response of half a kilobyte, which is not needed and
not kept. Needs some 8 GB of disk for a while. --draw adds the calibration check, intervals and
paired differences, which draw 1,000 times overall and for each dataset. The peak is that of the whole process with its imports.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

SAMPLES = 4
WRITE = f"""
import gzip, shutil, sys
from pathlib import Path
import numpy as np, polars as pl
folder, rows = Path(sys.argv[1]), int(sys.argv[2])
for seed, name in enumerate(("rows", "others")):
    rng = np.random.default_rng(seed)
    question = np.arange(rows) // {SAMPLES}
    frame = pl.DataFrame(
        {{
            "confidence": rng.integers(0, 101, rows) / 100,
            "correct": rng.random(rows) < 0.5,
            "question_id": question,
            "dataset": np.array(["aime", "drop", "gsm8k", "math"])[question % 4],
        }}
    ).with_columns(pl.format("q{{}}", "question_id").alias("question_id"))
    frame.write_parquet(folder / f"{{name}}.parquet")
frame = pl.read_parquet(folder / "rows.parquet")
frame.write_csv(folder / "rows.csv")
frame.drop("question_id").write_csv(folder / "no-questions.csv")
frame.write_ndjson(folder / "rows.jsonl")
fat = pl.format("{{}} {{}}", pl.lit("Let us think, step by step.\\n" * 18), "question_id")
frame.lazy().with_columns(response=fat).sink_ndjson(folder / "responses.jsonl")
with open(folder / "rows.csv", "rb") as plain, gzip.open(folder / "rows.csv.gz", "wb", 1) as packed:
    shutil.copyfileobj(plain, packed, 1 << 20)
"""
PLAIN = [
    ["rows.parquet"],
    ["rows.csv"],
    ["no-questions.csv"],
    ["rows.csv.gz"],
    ["rows.jsonl"],
    ["responses.jsonl"],
]
DRAWN = [
    ["rows.parquet", "--check"],
    ["rows.parquet", "--intervals"],
    ["rows.parquet", "--baseline", "others.parquet"],
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        # In another process: what a process has taken up counts in the peak of those that it starts.
        subprocess.run([sys.executable, "-c", WRITE, folder, str(options.rows)], check=True)
        print(f"{options.rows:,} rows")
        for arguments in PLAIN + (DRAWN if options.draw else []):
            seconds, megabytes = measured(Path(folder), arguments)
            size = (Path(folder) / arguments[0]).stat().st_size / 1e6
            print(
                f"score {' '.join(arguments):<40} {size:>6,.0f} MB {seconds:>7.1f} s  peak {megabytes:>6,.0f} MB"
            )


def measured(folder: Path, arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak memory of one command."""
    command = [sys.executable, "-m", "calibsft", "score", *arguments, "--json"]
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
