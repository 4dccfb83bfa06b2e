"""Rollouts through servers that fail: every sample exactly once, and what was paid for is not paid for again."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import flaky_server
from calibsft.engines.engine import SEEDS
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from command_process import ENVIRONMENT, calibsft, ended, finish, kill_when
from flaky_process import Flaky, two_servers

SAMPLES = 10


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of which nothing but the tokenizer is needed."""
    folder = tmp_path_factory.mktemp("model")
    build_tokenizer().save_pretrained(folder)
    return folder


def questions(folder: Path, count: int) -> Path:
    path = folder / "questions.jsonl"
    rows = [{"question_id": str(n), "question": f"{n // 97}*{n % 97}", "gold": "1"} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rollout(model: Path, asked: Path, servers: list[Flaky], out: Path, *more: object) -> list[str]:
    urls = ",".join(server.url for server in servers)
    engine = ["--engine", "openai", "--urls", urls, "--engine-timeout", 2, "--engine-concurrency", 16]
    drawn = ["-n", SAMPLES, "--max-new-tokens", 60, "--shard-questions", 100]
    return calibsft("rollout", "--model", model, "--questions", asked, *drawn, *engine, "--out", out, *more)


def require_exact(out: Path, count: int) -> None:
    """Every sample is there once, and is what the servers answer to its prompt and seed."""
    rows = pl.read_parquet(out / "part-*.parquet")
    assert len(rows) == count * SAMPLES == rows.n_unique(("question_id", "sample"))
    assert rows["error"].null_count() == len(rows) and rows["finished"].all()
    assert rows["mean_logprob"].to_list() == [-0.5] * len(rows)
    asked = dict(pl.read_parquet(out / "questions.parquet").select("question_id", "question").iter_rows())
    tokenizer = build_tokenizer()
    for question, response in (
        rows.filter(pl.col("sample") == 3).select("question_id", "response").iter_rows()
    ):
        prompt = list(Prompting(FORMATS["probability"]).ids(tokenizer, asked[question]))
        assert response == flaky_server.response_of(prompt, seed_of(question, 3))


def seed_of(question: str, sample: int) -> int:
    from calibsft.engines.engine import sample_seed

    return sample_seed(0, "questions", question, sample) % SEEDS


def paid_tokens(servers: list[Flaky]) -> int:
    return sum(tokens for server in servers for _, _, tokens in server.paid)


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_sample_comes_once_through_servers_that_fail(model: Path, tmp_path: Path, count: int) -> None:
    asked = questions(tmp_path, count)
    with two_servers(tmp_path, failing=0.1) as servers:
        command = rollout(model, asked, servers, tmp_path / "out")
        process = subprocess.Popen(command, env=ENVIRONMENT)
        while len(servers[0].paid) < count:
            assert process.poll() is None
            time.sleep(0.05)
        servers[0].kill()
        time.sleep(1)
        servers[0].start()
        assert process.wait(600) == 0
        assert all(server.paid for server in servers)
    require_exact(tmp_path / "out", count)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_killed_run_does_not_pay_twice(
    model: Path, tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, out = questions(tmp_path, count), tmp_path / "out"
    with two_servers(tmp_path, failing=0.0) as servers:
        command = rollout(model, asked, servers, out)
        half = count * SAMPLES // 2
        kill_when(command, lambda: sum(len(server.paid) for server in servers) >= half)
        lost = sum(len(server.paid) for server in servers) - kept(out)
        finish(command)
        paid = paid_tokens(servers)
        once = sum({(p, s): tokens for server in servers for p, s, tokens in server.paid}.values())
    require_exact(out, count)
    with capsys.disabled():
        print(
            f"\n{count * SAMPLES} responses, killed at half: {lost} paid twice, {paid / once:.4f} of one pass"
        )
    if count == 1000:
        assert paid <= 1.05 * once


def kept(out: Path) -> int:
    """How many finished samples a killed run has left."""
    shards = sum(pl.read_parquet(path, columns=["sample"]).height for path in out.glob("part-*.parquet"))
    journals = [path.read_bytes().splitlines() for path in out.glob("part-*.samples.jsonl")]
    return shards + sum(line.endswith(b"}") for lines in journals for line in lines)


def test_a_budget_stops_cleanly_and_the_next_command_goes_on(model: Path, tmp_path: Path) -> None:
    asked, out = questions(tmp_path, 20), tmp_path / "out"
    with two_servers(tmp_path, failing=0.0) as servers:
        command = rollout(model, asked, servers, out)
        code, said = ended([*command, "--engine-token-budget", "2000"])
        assert code == 2 and "engine.token_budget, 2,000 tokens, is spent" in said, said
        begun = kept(out)
        assert 0 < begun < 20 * SAMPLES
        assert len(servers[0].paid) + len(servers[1].paid) == begun
        finish(command)
        assert len(servers[0].paid) + len(servers[1].paid) == 20 * SAMPLES
    require_exact(out, 20)


def test_servers_that_stay_away_end_the_command_and_lose_nothing(model: Path, tmp_path: Path) -> None:
    asked, out = questions(tmp_path, 100), tmp_path / "out"
    with two_servers(tmp_path, failing=0.0) as servers:
        command = [*rollout(model, asked, servers, out), "--engine-retries", "1"]
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        while sum(len(server.paid) for server in servers) < 200:
            assert process.poll() is None
            time.sleep(0.02)
        for server in servers:
            server.kill()
        _, said = process.communicate(timeout=120)
        assert process.returncode == 2, said
        assert "cannot be reached; start its server or correct engine.urls" in said.splitlines()[-1]
        assert kept(out) >= 100
        for server in servers:
            server.start()
        finish(command)
    require_exact(out, 100)


def test_ctrl_c_keeps_what_is_there(model: Path, tmp_path: Path) -> None:
    asked, out = questions(tmp_path, 100), tmp_path / "out"
    with two_servers(tmp_path, failing=0.0) as servers:
        command = rollout(model, asked, servers, out)
        process = subprocess.Popen(
            command,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        while sum(len(server.paid) for server in servers) < 200:
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130 and "Traceback" not in said, said
        assert kept(out) >= 150
        finish(command)
    require_exact(out, 100)


WRONG: list[tuple[list[Any], str]] = [
    (["--urls", "http://127.0.0.1:1/v1"], "cannot be reached; start its server or correct engine.urls"),
    (["--urls", "127.0.0.1:8000"], "engine.urls must be a plain address such as http://localhost:8000/v1"),
    (["--urls", "http://user:pass@127.0.0.1/v1"], "engine.urls must be a plain address"),
    ([], "engine.urls"),
]


@pytest.mark.parametrize("given, sentence", WRONG)
def test_a_wrong_address_is_one_sentence(
    model: Path, tmp_path: Path, given: list[Any], sentence: str
) -> None:
    asked = questions(tmp_path, 2)
    command = calibsft("rollout", "--model", model, "--questions", asked, "--engine", "openai", *given)
    code, said = ended([*command, "--out", str(tmp_path / "out")])
    assert code == 2 and sentence in said and "Traceback" not in said, said


def test_a_wrong_name_and_another_tokenizer_are_refused_before_anything_is_paid(
    model: Path, tmp_path: Path
) -> None:
    asked, other = questions(tmp_path, 2), tmp_path / "other"
    from many_tokenizers import byte_level

    byte_level().save_pretrained(other)
    with two_servers(tmp_path, failing=0.0) as servers:
        code, said = ended([*rollout(model, asked, servers, tmp_path / "a"), "--served-model", "fluky"])
        assert code == 2 and "has no model 'fluky' (it lists 'flaky'); correct engine.model" in said, said
        code, said = ended(rollout(other, asked, servers, tmp_path / "b"))
        assert code == 2 and f"has another tokenizer than {other}" in said, said
        assert not any(server.paid for server in servers)
