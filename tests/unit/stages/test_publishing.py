"""`--push-to-hub`: what arrives at a Hub, through its own library, and what is refused before any work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard, ModelCard

from calibsft.cards import model_card
from calibsft.publishing import upload
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings
from command import Command
from fake_hub import FakeHub, fake_hub

TOKEN = "hf_made_up"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub that this process and those that it starts talk to."""
    from huggingface_hub import constants, hf_api

    with fake_hub(TOKEN) as found:
        for module in (constants, hf_api.constants):
            monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
            monkeypatch.setattr(module, "ENDPOINT", found.url)
        for name, value in {"HF_ENDPOINT": found.url, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0"}.items():
            monkeypatch.setenv(name, value)
        yield found


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`calibsft build` in a process of its own, since the Hub's library reads its variables once."""
    rows = [
        {
            "question_id": f"q{i}",
            "question": f"{i}?",
            "response": f"<think>so</think> <answer>{n}</answer> <confidence>0.50</confidence>",
            "correct": n == 0,
        }
        for i in range(4)
        for n in (0, 0, 1)
    ]
    (folder / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "calibsft", "build", "pool.jsonl", "--out", "data", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_a_training_set_arrives_with_its_card_and_without_records(hub: FakeHub, tmp_path: Path) -> None:
    done = build(tmp_path, "--push-to-hub", "me/set")
    assert done.returncode == 0, done.stderr
    assert hub.made == [{"name": "set", "organization": "me", "visibility": "private", "type": "dataset"}]
    assert set(hub.files) == {"README.md", "sft.parquet", "labels.parquet", "sft.jsonl", "targets.json"}
    assert hub.files["sft.parquet"] == (tmp_path / "data" / "sft.parquet").read_bytes()
    configs = DatasetCard(hub.files["README.md"].decode()).data.configs
    assert [config["config_name"] for config in configs] == ["default", "labels"]
    again = build(tmp_path, "--push-to-hub", "me/set", "--public")
    assert again.returncode == 0 and "done before, skipped" in again.stderr, "what is done is uploaded too"
    assert hub.made[-1]["visibility"] == "public"


def test_a_missing_login_is_told_before_any_work(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    done = build(tmp_path, "--push-to-hub", "me/set")
    assert done.returncode == 2 and "me/set: could not be uploaded" in done.stderr
    assert "hf auth login" in done.stderr and not (tmp_path / "data").exists()


def test_a_checkpoint_arrives_with_its_results_and_no_folder_of_this_machine(
    hub: FakeHub, tmp_path: Path
) -> None:
    base, model = tmp_path / "base", tmp_path / "model"
    base.mkdir()
    (model / ".eval_results").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / ".eval_results" / "gsm8k.yaml").write_text("[]\n")
    asked = Prompting(FORMATS["probability"])
    (model / "README.md").write_text(
        model_card(str(base), (), "Title", f"Made from `{base}`.", SftSettings(), asked)
    )
    before = (model / "README.md").read_text()
    upload(model, "me/model", "model")
    assert set(hub.files) == {"README.md", "config.json", ".eval_results/gsm8k.yaml"}
    card = ModelCard(hub.files["README.md"].decode())
    assert card.data.base_model is None and card.data.library_name == "transformers"
    assert str(base) not in str(card) and "Made from a checkpoint that is not on the Hub." in card.text
    assert (model / "README.md").read_text() == before


def test_public_alone_means_nothing(calibsft: Command, tmp_path: Path) -> None:
    (tmp_path / "pool.jsonl").write_text("{}\n")
    code, _, said = calibsft("build", "pool.jsonl", "--public", "--out", "o")
    assert code == 2 and "public means nothing without --push-to-hub" in said
