"""The benchmark of `build` runs: it checks the verdicts and the rows that it makes, at any size."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench"


def test_the_benchmark_finds_the_same_rows_as_pandas(tmp_path: Path) -> None:
    words = [
        "--questions",
        "40",
        "--verify-fraction",
        "0.1",
        "--pandas-questions",
        "30",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, BENCH / "build.py", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, *costs = [line for line in done.stdout.splitlines() if line]
    assert first == "2,000 responses of 1,000 bytes and 250 tokens"
    assert [line.split()[0] for line in costs[:3]] == ["build", "score", "verify"]
    assert "1,500 responses, the fastest of 3 rounds; the training sets are the same" in costs
    assert not list(tmp_path.iterdir())
