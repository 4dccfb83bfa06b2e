"""RL with a served policy beside RL that samples in the trainer: what both reach with the same seeds, and where the time goes.

    python bench/served_policy.py [--steps 20] [--seeds 0,1,2] [--base DIR] [--engines .venv-engines/bin/python]

RLCR on the playground, with a model whose attention heads are as large as vLLM asks for, on one thread each. The server is vLLM
in an environment of its own (`scripts/engines-env`). The two draw from different random numbers, so they do not
train on the same responses: their difference is told with its 95 % interval over the seeds. Prints the means of the last
five steps, and the median seconds of each phase of a step.
"""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median, stdev
from tempfile import TemporaryDirectory
from typing import Any

from scipy.stats import t as student

from calibsft.playground.base import train_base
from calibsft.playground.settings import BaseSettings
from calibsft.playground.world import training_questions
from calibsft.progress import Progress
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from calibsft.rl.train import train_policy
from vllm_process import free_port, running

ROOT = Path(__file__).parents[1]
LAST = 5
FIGURES = ("pass@1", "brier", "ece")
PHASES = ("generate", "verify", "weights", "train")
RL = {
    "questions": 32, "group_size": 8, "updates": 2, "micro_batch_size": 32, "max_new_tokens": 32, "learning_rate": 1e-3,
    "warmup_steps": 2,
}  # fmt: skip
Steps = list[dict[str, Any]]


@contextmanager
def policy_server(python: str, model: Path) -> Iterator[str]:
    port = free_port()
    options = [f"--vllm={option}" for option in ("enforce-eager", "block-size=32")]
    command = [
        python,
        "-m",
        "calibsft",
        "policy-server",
        str(model),
        "--port",
        str(port),
        "--dtype",
        "float32",
        *options,
    ]
    own = {
        "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": str(ROOT / "src")
    }  # fmt: skip
    with running(command, port, os.environ | own) as url:
        yield url


def trained(base: Path, steps: int, seed: int, served: dict[str, Any]) -> Steps:
    """The steps of one training."""
    settings = METHODS["rlcr"].settings.model_validate({**RL, "steps": steps, **served})
    with TemporaryDirectory() as folder:
        train_policy(
            str(base),
            training_questions(),
            {},
            settings,
            Prompting(FORMATS["probability"]),
            seed,
            Path(folder),
            "cpu",
        )
        lines = Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def reached(runs: list[Steps], figure: str) -> list[float]:
    """The mean of each run's last steps."""
    return [fmean(step[figure] for step in steps[-LAST:]) for steps in runs]


def compare(ways: dict[str, list[Steps]]) -> None:
    here, served = ways.values()
    for figure in FIGURES:
        one, other = reached(here, figure), reached(served, figure)
        changes = [b - a for a, b in zip(one, other, strict=True)]
        half = student.ppf(0.975, len(changes) - 1) * stdev(changes) / len(changes) ** 0.5
        verdict = "within noise" if abs(fmean(changes)) <= half else "DIFFERS"
        print(
            f"{figure:8} trainer {fmean(one):.4f}, served {fmean(other):.4f}, difference {fmean(changes):+.4f} ± {half:.4f}:"
            f" {verdict}"
        )
    print(f"largest gap of log-probabilities: {max(s['sampler/gap'] for run in served for s in run):.1e}")
    print(f"{'seconds a step':16}" + "".join(f"{phase:>10}" for phase in PHASES))
    for way, runs in ways.items():
        times = [median(step[f"seconds/{phase}"] for run in runs for step in run) for phase in PHASES]
        print(f"{way:16}" + "".join(f"{seconds:10.2f}" for seconds in times))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--base", type=Path, help="a checkpoint with heads of 64; default: one is trained")
    parser.add_argument("--engines", default=str(ROOT / ".venv-engines/bin/python"))
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    with TemporaryDirectory() as folder:
        base = options.base or Path(folder)
        if not options.base:
            settings = BaseSettings(head_dim=64)
            with Progress("base", settings.steps, "steps") as progress:
                train_base(settings, 0, base, progress)
        with policy_server(options.engines, base) as url:
            served = {"policy": "served", "servers": {"urls": [url]}}
            # In turns, so that drift of the machine hits both alike.
            pairs = [[trained(base, options.steps, seed, way) for way in ({}, served)] for seed in seeds]
    in_trainer, at_server = map(list, zip(*pairs, strict=True))
    compare({"in the trainer": in_trainer, "served": at_server})


if __name__ == "__main__":
    main()
