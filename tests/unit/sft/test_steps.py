"""What a fine-tuning is called: its training set says so, in the lineage and on the card."""

import json
import shutil
from pathlib import Path

import pytest

from calibsft.artifacts import read_manifest
from command import Command

SAYS = "<think></think><answer>{}</answer><confidence>0.{}0</confidence>"
TITLES = {
    "warmup": "# Warmed up to keep to the response format",
    "calibsft": "# Fine-tuned to state calibrated confidence",
}
CALIBRATED = "The stated confidence is calibrated on questions like those it was trained on"


@pytest.fixture
def tuned(calibsft: Command, random_checkpoint: Path) -> None:
    """A training set for each step, and a model fine-tuned on it and then on the other."""
    rows = [
        {"question_id": a, "question": f"{a}*11", "response": SAYS.format(b, b), "correct": b < a - 9}
        for a in range(10, 13)
        for b in range(1, 5)
    ]
    Path("pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step, target in (("warmup", "stated"), ("calibsft", "csft")):
        code, _, err = calibsft(
            "build", "pool.jsonl", "--target", target, "--no-balance", "--out", f"{step}-data"
        )
        assert code == 0, err
    fine_tune(calibsft, random_checkpoint, "warmup-data", "one")
    fine_tune(calibsft, "one/model", "calibsft-data/sft.parquet", "two")


def fine_tune(calibsft: Command, model: object, data: str, out: str) -> None:
    words = ("--steps", 1, "--batch-size", 4, "--micro-batch-size", 4, "--loss", "full-ce", "--device", "cpu")
    code, _, err = calibsft("sft", "--model", model, "--data", data, "--out", out, *words)
    assert code == 0, err


@pytest.mark.usefixtures("tuned")
def test_a_training_set_names_the_step(calibsft: Command, random_checkpoint: Path) -> None:
    assert read_manifest(Path("one"))["lineage"] == ["warmup"]
    assert read_manifest(Path("two"))["lineage"] == ["warmup", "calibsft"]
    for folder, step in (("one", "warmup"), ("two", "calibsft")):
        card = Path(folder, "model", "README.md").read_text()
        assert TITLES[step] in card and (CALIBRATED in card) == (step == "calibsft")
    # A table without the folder that it was built in.
    shutil.copy("warmup-data/sft.parquet", "sft.parquet")
    fine_tune(calibsft, random_checkpoint, "sft.parquet", "foreign")
    assert read_manifest(Path("foreign"))["lineage"] == ["calibsft"]
