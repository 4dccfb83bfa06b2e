"""Stages do not hold the texts of all responses: their peak stays below the size of the texts, by a wide margin."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

BENCH = Path(__file__).parents[3] / "bench"
QUESTIONS, TEXT_BYTES = 2000, 24_000
# 50 responses to each question have 2,400 MB of text; a shard of 100 questions has 120.
MOST_MB = 1000
WRITE = "from pathlib import Path; from large_run import write_run; write_run(Path({!r}), {}, {}, 50)"
# What `eval` does after sampling.
EVALUATE = """
import sys
from pathlib import Path
from types import SimpleNamespace
from calibsft.artifacts import StageFolder
from calibsft.evaluation import _verify_and_score
from calibsft.responses.formats import FORMATS
run, folder = map(Path, sys.argv[1:])
def work(folder):
    for name in ("rollouts", "verdicts"):
        (folder / name).symlink_to(run / name)
    collector, benchmarks = SimpleNamespace(format=FORMATS["probability"]), SimpleNamespace(domains={"bench": "id"})
    _verify_and_score(collector, benchmarks, folder, "eval", None)
    return {"model": "m", "lineage": []}
StageFolder(folder, "eval", {"format": "probability"}).perform(work, fresh=False)
"""


def peak_mb(*program: str | Path) -> float:
    """The peak memory of a program of Python."""
    with subprocess.Popen([sys.executable, *map(str, program)], stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
    assert status == 0
    return used.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


@pytest.fixture
def run() -> Iterator[Path]:
    """Rollouts and verdicts with long texts; removed at once, because they take gigabytes."""
    with TemporaryDirectory() as folder:
        program = WRITE.format(folder, QUESTIONS, TEXT_BYTES)
        subprocess.run([sys.executable, "-c", program], check=True, cwd=BENCH)
        yield Path(folder)


@pytest.mark.slow
def test_no_stage_holds_the_texts_of_all_responses(run: Path) -> None:
    rollouts, verdicts, evaluation = run / "rollouts", run / "verdicts", run / "evaluation"
    # Without balancing, the training set has all texts.
    build = ("build", rollouts, "--verdicts", verdicts, "--no-balance", "--out", run / "built")
    peaks = {
        "verify": peak_mb("-m", "calibsft", "verify", rollouts, "--out", run / "again"),
        "build": peak_mb("-m", "calibsft", *build),
        "eval": peak_mb("-c", EVALUATE, run, evaluation),
        "score": peak_mb("-m", "calibsft", "score", evaluation),
        "report": peak_mb("-m", "calibsft", "report", evaluation, "--out", run / "page.html"),
    }
    assert max(peaks.values()) < MOST_MB, peaks
