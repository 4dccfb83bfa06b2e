"""kill -9 at any moment, then the same command again: nothing lost, nothing twice, the same result.

The child is a real `calibsft` process that is killed from outside while it works; the reference is the same command
left alone.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest

from calibsft.artifacts import write_parquet
from command_process import calibsft, ended, finish, kill_when


def manifest(folder: Path) -> dict[str, object]:
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"question_id": f"q{a}", "question": f"{a}*{a + 7}", "gold": f"{a * (a + 7):04d}", "kind": "exact"}
        for a in range(10, 50)
    ]
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rollouts_survive_two_kills(short_base: Path, questions: Path, tmp_path: Path) -> None:
    def command(out: Path) -> list[str]:
        return calibsft(
            "rollout", "--model", short_base, "--questions", questions, "--out", out, "-n", 30, "--max-new-tokens", 30,
            "--max-rows", 60, "--shard-questions", 4, "--device", "cpu",
        )  # fmt: skip

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(command(whole))
    for shards in (1, 4):
        kill_when(command(killed), lambda wanted=shards: len(list(killed.glob("part-*.parquet"))) >= wanted)
        assert not (killed / "manifest.json").exists()
    before = {path: path.stat().st_mtime_ns for path in killed.glob("part-*.parquet")}
    assert 4 <= len(before) < 10, "it was killed while work was left"
    said = finish(command(killed))
    assert "were done before" in said
    assert {path: path.stat().st_mtime_ns for path in before} == before, (
        "finished shards are not written again"
    )
    assert manifest(killed)["content_hash"] == manifest(whole)["content_hash"]
    rows = pl.read_parquet(killed / "part-*.parquet").select("question_id", "sample")
    assert len(rows) == 40 * 30 == rows.n_unique()
    assert "skipped" in finish(command(killed))


def test_a_damaged_shard_is_reported_and_sampled_again(
    short_base: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = calibsft(
        "rollout", "--model", short_base, "--questions", questions, "--out", out, "-n", 4, "--max-new-tokens", 30,
        "--shard-questions", 20, "--device", "cpu",
    )  # fmt: skip
    finish(command)
    wanted = manifest(out)["content_hash"]
    (out / "manifest.json").unlink()
    shard = out / "part-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:500])
    assert "part-00001.parquet is damaged" in finish(command)
    assert manifest(out)["content_hash"] == wanted


@pytest.mark.parametrize("damage", ["shorter", "same size"])
def test_the_advice_about_a_damaged_shard_samples_that_shard_alone(
    random_checkpoint: Path, questions: Path, tmp_path: Path, damage: str
) -> None:
    out = tmp_path / "run"
    rollout = calibsft(
        "rollout", "--model", random_checkpoint, "--questions", questions, "--out", out, "-n", 2, "--max-new-tokens", 20,
        "--shard-questions", 10, "--device", "cpu",
    )  # fmt: skip
    verify = calibsft("verify", out, "--out", tmp_path / "verdicts")
    finish(rollout)
    wanted = manifest(out)["content_hash"]
    shard = out / "part-00001.parquet"
    whole = shard.read_bytes()
    middle = len(whole) // 2
    torn = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    shard.write_bytes(torn if damage == "same size" else whole[:middle])
    code, said = ended(verify)
    assert code == 2 and not (tmp_path / "verdicts" / "manifest.json").exists()
    advice = re.search(r"^calibsft: (\S+): damaged, .*; remove it and (\S+), then run the stage again", said)
    assert advice, said
    for removed in advice.groups():
        Path(removed).unlink()
    others = {path: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}
    assert len(others) == 3
    assert "60 of 80 responses were done before" in finish(rollout)
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert shard.read_bytes() == whole and manifest(out)["content_hash"] == wanted
    finish(verify)


def test_fine_tuning_survives_two_kills_with_the_same_losses_and_weights(
    short_base: Path, tmp_path: Path
) -> None:
    rows = [
        {
            "draw": 0, "question_id": str(a), "sample": 0, "question": f"{a}*11", "correct": a % 2 == 0,
            "response": f"<think>{a * 10:04d}+{a:03d}</think><answer>{a * 11:04d}</answer><confidence>0.{a}</confidence>",
        }
        for a in range(10, 99)
    ]  # fmt: skip
    data = tmp_path / "sft.parquet"
    write_parquet(data, pl.DataFrame(rows))

    def command(out: Path) -> list[str]:
        settings = (
            "steps=60",
            "batch_size=64",
            "micro_batch_size=16",
            "learning_rate=1e-3",
            "max_tokens=64",
            "save_every=8",
        )
        changes = [word for setting in settings for word in ("--set", setting)]
        return calibsft(
            "sft", "--model", short_base, "--data", data, "--out", out, "--device", "cpu", *changes
        )

    def steps(folder: Path) -> int:
        path = folder / "metrics.jsonl"
        return len(path.read_text().splitlines()) if path.is_file() else 0

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(command(whole))
    for step in (13, 30):
        kill_when(command(killed), lambda wanted=step: steps(killed) >= wanted)
    said = finish(command(killed))
    assert "were done before" in said
    journals = [
        [
            {key: row[key] for key in ("step", "loss")}
            for row in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        ]
        for folder in (whole, killed)
    ]
    assert [row["step"] for row in journals[1]] == list(range(1, 61)), "every step once, in order"
    assert journals[0] == journals[1]
    assert manifest(killed)["final_loss"] == manifest(whole)["final_loss"]
    assert (
        manifest(killed)["files"]["model/model.safetensors"]
        == manifest(whole)["files"]["model/model.safetensors"]
    )


def test_rl_survives_two_kills_with_the_same_steps_and_weights(short_base: Path, tmp_path: Path) -> None:
    # Multiples of ten are what so short a training solves now and then; a round of them ends within the run.
    rows = [
        {"question_id": a, "question": f"{a}*10", "gold": f"{a * 10:04d}", "kind": "exact"}
        for a in range(10, 40)
    ]
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def command(out: Path) -> list[str]:
        settings = (
            "steps=10", "questions=4", "micro_batch_size=16", "learning_rate=1e-3", "warmup_steps=2", "max_new_tokens=30",
            "kl=0.01", "eval_every=3", "eval_questions=2", "save_every=2",
        )  # fmt: skip
        changes = [word for setting in settings for word in ("--set", setting)]
        return calibsft(
            "rl", "--model", short_base, "--method", "rlcr", "--data", data, "--out", out, "--benchmarks", "cross",
            "--device", "cpu", *changes,
        )  # fmt: skip

    def steps(folder: Path) -> list[dict[str, float]]:
        """The journal without times, and without the epoch, which the library counts from the resumption."""
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        journal = (json.loads(line) for line in lines if line.endswith("\n"))
        return [
            {
                k: v
                for k, v in row.items()
                if "seconds" not in k and k not in {"step_time", "epoch", "tokens_per_second"}
            }
            for row in journal
        ]

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(command(whole))
    # One step after a checkpoint, so that this step, and the third one's evaluation, are done once more.
    for step in (3, 7):
        kill_when(command(killed), lambda wanted=step: len(steps(killed)) >= wanted)
        assert (killed / f"checkpoints/checkpoint-{2 * (step - 1)}/complete").exists()
    said = finish(command(killed))
    told = re.search(r"^rl: (\d+) of 10 steps were done before$", said, re.MULTILINE)
    assert told and int(told[1]) in {6, 8}, said
    assert [row["step"] for row in steps(killed)] == list(range(1, 11)), "every step once, in order"
    assert steps(killed) == steps(whole)
    evaluated = (killed / "evals.jsonl").read_text()
    assert [json.loads(line)["step"] for line in evaluated.splitlines()] == [3, 6, 9]
    assert evaluated == (whole / "evals.jsonl").read_text()
    assert manifest(killed)["files"] == manifest(whole)["files"]
    assert "model/model.safetensors" in manifest(killed)["files"]
    counts = ("steps", "updates", "generated_batches")
    assert [manifest(killed)[key] for key in counts] == [manifest(whole)[key] for key in counts]
    assert not (killed / "checkpoints").exists()


def test_a_kill_while_the_card_is_written_does_not_change_the_checkpoint(
    random_checkpoint: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(random_checkpoint, model)
    (model / "README.md").write_text("<!-- calibsft: calibration -->\n")
    words = ("eval", "--model", model, "--benchmarks", "cross", "--limit", 2, "-n", 2, "--max-new-tokens", 20)
    words = (*words, "--device", "cpu", "--out", tmp_path / "eval")
    # The evaluation as it is, but that it stops in the middle of writing the card, so that the kill meets it there.
    program = """
        import os, time
        from calibsft import cards, cli
        write_text = cards.write_text
        def stop_half_way(path, text):
            os.fsync = lambda _: time.sleep(600)
            write_text(path, text)
        cards.write_text = stop_half_way
        cli.main()
        """
    command = [sys.executable, "-c", dedent(program), *map(str, words)]
    kill_when(command, lambda: any(path.stat().st_size for path in model.glob("README.md?*")))
    assert (model / "README.md").read_text() == "<!-- calibsft: calibration -->\n"
    finish(calibsft(*words))
    assert "| cross |" in (model / "README.md").read_text()


WORKING = """
import sys, time
from pathlib import Path
from calibsft.artifacts import StageFolder

def work(folder):
    with (folder / "rows.txt").open("a") as out:
        out.write("row\\n")
    time.sleep(float(sys.argv[2]))
    return {}

StageFolder(Path(sys.argv[1]), "mine", {"seed": 0}).perform(work, fresh=False)
"""


def test_the_cost_of_a_killed_stage_is_that_of_all_its_parts(tmp_path: Path) -> None:
    folder = tmp_path / "mine"

    def command(seconds: float) -> list[str]:
        return [sys.executable, "-c", WORKING, str(folder), str(seconds)]

    def worked() -> float:
        path = folder / "cost.json"
        return json.loads(path.read_text())["wall_seconds"] if path.is_file() else 0.0

    for seconds in (1, 3):
        kill_when(command(600), lambda wanted=seconds: worked() >= wanted)
        assert not (folder / "manifest.json").exists()
    before = worked()
    finish(command(0))
    found = manifest(folder)
    assert (folder / "rows.txt").read_text() == "row\n" * 3, "two kills, one end"
    assert found["wall_seconds"] >= before >= 3 and found["resumed"] is True
    assert list(found["files"]) == ["rows.txt"], "what it cost is no part of the result"
