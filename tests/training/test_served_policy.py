"""RL whose policy is sampled by servers: they get the newest weights, and what they sample is what the trainer would.

The servers are `support/policy_process`, which loads real weights; `tests/contract/test_policy_server.py` has vLLM.
"""

import errno
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from calibsft.engines.engine import SEEDS, sample_seed
from calibsft.errors import InputError
from calibsft.playground.world import training_questions
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl import policy
from calibsft.rl.methods import METHODS
from calibsft.rl.train import train_policy
from calibsft.schema import Question
from policy_process import PolicyProcess
from scripted_server import scripted_server, sends

pytestmark = pytest.mark.long

EVEN = tuple(f"{n:04d}" for n in range(0, 10_000, 2))
QUESTIONS = [Question(q.id, q.text, EVEN, "exact", "even") for q in training_questions()[:12]]
QUICK = {
    "steps": 3, "questions": 4, "group_size": 4, "updates": 2, "micro_batch_size": 4, "max_new_tokens": 30,
    "learning_rate": 1e-4, "warmup_steps": 0, "save_every": 1,
}  # fmt: skip
CLOSE = 1e-4


@pytest.fixture
def serve(short_base: Path, tmp_path: Path) -> Iterator[Callable[[], PolicyProcess]]:
    started: list[PolicyProcess] = []

    def start() -> PolicyProcess:
        started.append(PolicyProcess(short_base, tmp_path / f"server-{len(started)}.jsonl"))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def train(base: Path, folder: Path, *urls: str, method: str = "rlcr", **changes: Any) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    served = {"policy": "served", "servers": {"urls": urls, **changes.pop("servers", {})}} if urls else {}
    settings = METHODS[method].settings.model_validate({**QUICK, **served, **changes})
    train_policy(str(base), QUESTIONS, {}, settings, Prompting(FORMATS["probability"]), 0, folder, "cpu")
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def test_servers_sample_what_the_trainer_would(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Servers take no negative seeds, so that the trainer must not have any here.
    monkeypatch.setattr(policy, "sample_seed", lambda *sample: sample_seed(*sample) % SEEDS)
    servers = [serve(), serve()]
    here = train(short_base, tmp_path / "here")
    there = train(short_base, tmp_path / "there", *(server.url for server in servers))
    # Later steps may differ by a token that rounding decides.
    for name in ("pass@1", "brier", "response_tokens", "loss", "grad_norm"):
        assert there[0][name] == pytest.approx(here[0][name], abs=CLOSE), name
    for row in (*here, *there):
        assert row["sampler/gap"] < CLOSE and row["sampler/kl"] < CLOSE and row["sampler/clipped"] == 0
        assert "gradient/confidence" not in row, "the method does not tell segments apart"
    # A step has two updates: the weights before the first step, and after those of the first and second.
    for server in servers:
        versions = server.events("version")
        assert [version.partition("-")[2] for version in versions] == ["0", "2", "4"]
        assert set(server.events("sampled")) == set(versions), "both have sampled, and every version"
    assert [path.name for path in (tmp_path / "there" / "weights").iterdir()] == versions[-1:], (
        "older ones are gone"
    )


def test_a_server_that_is_killed_and_started_again_gets_the_newest_weights(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess]
) -> None:
    stays, dies = serve(), serve()
    deadline = time.monotonic() + 120

    def restart() -> None:
        while len(dies.events("sampled")) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        dies.kill()
        time.sleep(1)
        dies.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    rows = train(short_base, tmp_path / "run", stays.url, dies.url, steps=6)
    restarting.join()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(row["generated_groups"] == 4 * row["batches"] for row in rows), "nothing is lost"
    assert all(row["sampler/gap"] < CLOSE for row in rows), "no response is of old weights"
    assert "default" not in stays.events("sampled")
    later = dies.events("version")
    assert len(later) >= 2 and later[-1].endswith("-10"), "it has come back"


@pytest.mark.slow
def test_without_any_server_the_training_stops_with_a_sentence_and_goes_on_later(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess]
) -> None:
    server = serve()

    def kill() -> None:
        while len(server.events("version")) < 2:
            time.sleep(0.01)
        server.kill()

    threading.Thread(target=kill).start()
    with pytest.raises(InputError, match=r"the policy's server at .* rl.servers.urls"):
        train(short_base, tmp_path / "run", server.url, servers={"retries": 0}, steps=4)
    server.start()
    rows = train(short_base, tmp_path / "run", server.url, servers={"retries": 0}, steps=4)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]


@pytest.mark.slow
def test_the_correction_of_importance_leaves_exact_servers_alone(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess]
) -> None:
    server = serve()
    plain = train(short_base, tmp_path / "plain", server.url, steps=1)
    corrected = train(
        short_base, tmp_path / "corrected", server.url, steps=1, servers={"importance_cap": 2.0}
    )
    assert corrected[0]["loss"] == pytest.approx(plain[0]["loss"], abs=CLOSE)
    one, two = weights(tmp_path / "plain"), weights(tmp_path / "corrected")
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)


@pytest.mark.slow
def test_adapters_are_sent_merged(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess]
) -> None:
    lora = {"rank": 4, "alpha": 8}
    rows = train(short_base, tmp_path / "run", serve().url, lora=lora, learning_rate=3e-3)
    assert all(row["sampler/gap"] < CLOSE for row in rows)


def test_a_server_that_cannot_be_used_is_refused_before_the_first_step(
    short_base: Path, tmp_path: Path
) -> None:
    def refused(*urls: str, **changes: Any) -> str:
        with pytest.raises(InputError) as error:
            train(short_base, tmp_path / "run", *urls, **changes)
        assert not (tmp_path / "run" / "metrics.jsonl").exists()
        return str(error.value)

    assert refused(policy="served").endswith("give their addresses in rl.servers.urls")
    assert "http://127.0.0.1:9" in refused("http://127.0.0.1:9")
    with scripted_server(lambda asked: sends({"error": "not found"}, status=404)) as plain:
        assert refused(plain.url).endswith(
            "takes no weights from a trainer; start it with calibsft policy-server"
        )
    other = tmp_path / "other"
    config = AutoConfig.from_pretrained(short_base, hidden_size=32)
    AutoModelForCausalLM.from_config(config).save_pretrained(other)
    AutoTokenizer.from_pretrained(short_base).save_pretrained(other)
    server = PolicyProcess(other, tmp_path / "other.jsonl")
    try:
        assert "holds another model: its hidden_size is 32, that of the model in training 64" in refused(
            server.url
        )
    finally:
        server.kill()


def test_a_shared_folder_keeps_what_others_have_in_it(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess]
) -> None:
    shared, server = tmp_path / "shared", serve()
    for other in ("results", "0a1b2c3d-2"):  # somebody's files, and the weights of another training
        (shared / other).mkdir(parents=True)
        (shared / other / "kept").touch()
    train(short_base, tmp_path / "run", server.url, steps=1, servers={"folder": shared})
    train(short_base, tmp_path / "run", server.url, steps=2, servers={"folder": shared})
    assert (shared / "results" / "kept").is_file() and (shared / "0a1b2c3d-2" / "kept").is_file()
    assert len(list(shared.rglob("model.safetensors"))) == 1, "its own older weights are gone"
    assert not (tmp_path / "run" / "weights").exists()


def test_a_folder_without_room_for_weights_is_named(
    short_base: Path, tmp_path: Path, serve: Callable[[], PolicyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with pytest.raises(InputError, match=r"weights.*No space left on device"):
        train(short_base, tmp_path / "run", serve().url)
