"""RL over two processes whose policy servers sample, whole or cut by FSDP or ZeRO, is that of one process.

The servers are `support/policy_process`; they give the same samples for the same weights, so all ways train on the same groups.
"""

import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from launching import WAYS, assert_same_training, journal, kill_second_process, launcher, run_launched
from policy_process import PolicyProcess
from shared_questions import EVEN_TENS, of_second_process, write_questions

pytestmark = pytest.mark.long

NUMBERS = range(10, 40)
SETTINGS = (
    "steps=2", "questions=8", "group_size=4", "updates=2", "micro_batch_size=4", "learning_rate=1e-4",
    "max_new_tokens=30", "save_every=1", "warmup_steps=0", "max_batches=1", "policy=served",
)  # fmt: skip
FIGURES = (
    "loss", "grad_norm", "kept_groups", "generated_groups", "pass@1", "brier", "response_tokens", "sampler/gap",
)  # fmt: skip
LONG = "steps=6"


@pytest.fixture(scope="module")
def server(short_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyProcess]:
    process = PolicyProcess(short_base, tmp_path_factory.mktemp("server") / "log.jsonl")
    yield process
    process.kill()


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Questions by method: C3RL takes every group and asks for success rates; RLCR takes mixed groups, and the second process
    has none of those."""
    folder, second = tmp_path_factory.mktemp("questions"), of_second_process(NUMBERS, seed=43)
    unsolvable = {a: ["nothing"] if a in second else EVEN_TENS for a in NUMBERS}
    every = dict.fromkeys(NUMBERS, EVEN_TENS)
    return {
        "c3rl": write_questions(folder / "c3rl.jsonl", every, success_rate=lambda a: (a % 3) / 2),
        "rlcr": write_questions(folder / "rlcr.jsonl", unsolvable),
    }


def words(
    method: str, base: Path, questions: dict[str, Path], server: PolicyProcess, out: Path, *settings: str
) -> list[str]:
    paths = ["--model", str(base), "--data", str(questions[method]), "--out", str(out)]
    changes = (*SETTINGS, f'servers.urls=["{server.url}"]', *settings)
    options = ["--format", "integer", "--device", "cpu", *(f"--set={change}" for change in changes)]
    return ["rl", "--method", method, *paths, *options]


@pytest.fixture(scope="module")
def alone(
    short_base: Path,
    questions: dict[str, Path],
    server: PolicyProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Path]:
    """The training of one process by a method, with settings."""
    folder = tmp_path_factory.mktemp("alone")

    @cache
    def train(method: str, *settings: str) -> Path:
        out = folder / "-".join((method, *settings))
        run_launched("one", words(method, short_base, questions, server, out, *settings), folder)
        return out

    return train


@pytest.mark.parametrize("method", ["rlcr", pytest.param("c3rl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_learn_like_one(
    way: str,
    method: str,
    short_base: Path,
    questions: dict[str, Path],
    server: PolicyProcess,
    alone: Callable[..., Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    run_launched(way, words(method, short_base, questions, server, out), tmp_path)
    assert_same_training(out, alone(method), *FIGURES)
    for row in journal(out):
        assert row["grad_norm"] > 0 and row["sampler/gap"] < 1e-4
        assert row["kept_groups"] == 8 if method == "c3rl" else 0 < row["kept_groups"] <= 4


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_more_accumulation_steps_change_nothing(
    rows: int,
    short_base: Path,
    questions: dict[str, Path],
    server: PolicyProcess,
    alone: Callable[..., Path],
    tmp_path: Path,
) -> None:
    # One process takes 4 steps of 4 rows; these are 8 and 4 steps of each of two.
    changed = f"micro_batch_size={rows}"
    run_launched("ddp", words("c3rl", short_base, questions, server, tmp_path / "out", changed), tmp_path)
    assert_same_training(tmp_path / "out", alone("c3rl"), *FIGURES)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp2", "zero2", "zero3"])
def test_a_killed_process_ends_the_training_and_a_rerun_ends_as_if_nothing_had_been(
    way: str,
    short_base: Path,
    questions: dict[str, Path],
    server: PolicyProcess,
    alone: Callable[..., Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    training = words("c3rl", short_base, questions, server, out, LONG)
    kill_second_process([*launcher(way, tmp_path), *training], out)
    said = run_launched(way, training, tmp_path)
    assert "of 6 steps were done before" in said
    assert_same_training(out, alone("c3rl", LONG), *FIGURES)


def test_a_server_that_is_started_again_gets_the_weights_from_whichever_process_meets_it(
    short_base: Path, questions: dict[str, Path], alone: Callable[..., Path], tmp_path: Path
) -> None:
    dies = PolicyProcess(short_base, tmp_path / "log.jsonl")

    def restart() -> None:
        while len(dies.events("sampled")) < 5:
            time.sleep(0.01)
        dies.kill()
        dies.start()

    restarting = threading.Thread(target=restart, daemon=True)
    restarting.start()
    try:
        # The only server: both processes wait for it, and it has forgotten the weights that the first had sent.
        training = words("c3rl", short_base, questions, dies, tmp_path / "out", "servers.retries=40")
        run_launched("ddp", training, tmp_path)
        restarting.join()
    finally:
        dies.kill()
    assert_same_training(tmp_path / "out", alone("c3rl"), *FIGURES)
