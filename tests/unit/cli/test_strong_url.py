"""`calibsft route --strong-url`: the strong model is asked the local model's questions, graded and counted."""

import json
from pathlib import Path

import polars as pl
import pytest
from transformers import GenerationConfig

from calibsft.playground.tokenizer import build_tokenizer
from command import Command
from flaky_process import two_servers

LIMIT = 40


@pytest.fixture
def local(calibsft: Command, random_checkpoint: Path) -> str:
    rows = [{"question_id": str(n), "question": f"{n}*3", "gold": str(n % 10)} for n in range(LIMIT)]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = ("--questions", "mine.jsonl", "--benchmarks", "cross")
    asked = (*own, "--limit", LIMIT, "-n", 2, "--max-new-tokens", 30)
    assert calibsft("eval", "--model", random_checkpoint, *asked, "--device", "cpu", "--out", "local")[0] == 0
    return "local"


def test_the_strong_side_is_sampled_graded_and_counted(
    calibsft: Command, local: str, random_checkpoint: Path, tmp_path: Path
) -> None:
    with two_servers(tmp_path, failing=0.0) as servers:
        urls = ",".join(server.url for server in servers)
        strong = ("--strong-url", urls, "--strong-model", "flaky", "--strong-tokenizer", random_checkpoint)
        code, out, err = calibsft("route", local, "--epsilon", 0.2, *strong, "--json")
        assert code == 0, err
        paid = [entry for server in servers for entry in server.paid]
        # Again: nothing is asked twice.
        assert calibsft("route", local, "--epsilon", 0.2, *strong, "--force", "--json")[1] == out
        assert sum(len(server.paid) for server in servers) == len(paid) == 2 * LIMIT
    rows, asked = pl.read_parquet("strong/rows.parquet"), pl.read_parquet("local/rows.parquet")
    assert rows.n_unique(("dataset", "question_id")) == len(rows) == 2 * LIMIT
    keys = ["dataset", "question_id", "split"]
    assert rows.select(keys).sort(keys).equals(asked.select(keys).unique().sort(keys))
    assert rows["correct"].any() and not rows["correct"].all()
    again = calibsft("route", local, "--strong", "strong", "--epsilon", 0.2, "--force", "--json")[1]
    assert again == out
    tokens = pl.read_parquet("strong/rollouts/part-*.parquet")["token_ids"].list.len().sum()
    usage = json.loads(Path("strong/rollouts/usage.json").read_text())
    assert usage["completion_tokens"] == tokens and usage["prompt_tokens"] > 0


def test_a_name_that_only_the_servers_know_is_not_looked_up_on_the_hub(
    calibsft: Command, local: str, random_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    def from_pretrained(name: str, **_: str) -> GenerationConfig:
        looked_up.append(name)
        return GenerationConfig()

    monkeypatch.setattr(GenerationConfig, "from_pretrained", from_pretrained)
    with two_servers(tmp_path, failing=0.0) as servers:
        strong = (
            "--strong-url",
            servers[0].url,
            "--strong-model",
            "flaky",
            "--strong-tokenizer",
            random_checkpoint,
        )
        assert calibsft("route", local, "--epsilon", 0.2, *strong)[0] == 0
    assert looked_up == [str(random_checkpoint)]


def test_wrong_input_is_one_sentence(
    calibsft: Command, local: str, random_checkpoint: Path, tmp_path: Path
) -> None:
    build_tokenizer().save_pretrained(tmp_path / "tokenizer")
    both = tmp_path / "both.csv"
    both.write_text("question_id,confidence,local_correct,strong_correct\n1,0.5,true,true\n")
    nobody = ("--strong-url", "http://127.0.0.1:1/v1")
    named = ("--strong-model", "m", "--strong-tokenizer", tmp_path / "tokenizer")
    for given, sentence in [
        ([local, *nobody], "--strong-url needs the strong model's name; add --strong-model"),
        ([local, *nobody, *named, "--strong", "x"], "give one of the two"),
        ([local, *nobody, *named], "cannot be reached; start its server or correct engine.urls"),
        ([both, *nobody, *named], "not an evaluation, so its questions cannot be asked again"),
        ([local, "--strong-url", "nowhere", *named], "must be a plain address"),
    ]:
        code, _, err = calibsft("route", *given, "--epsilon", 0.1)
        assert code == 2 and sentence in err and "Traceback" not in err, err
        assert not Path("policy.json").exists()
