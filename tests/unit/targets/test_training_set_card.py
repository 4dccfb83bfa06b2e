"""A training set's folder loads as it is, with the Hub's own library, and TRL trains on it."""

import json
from pathlib import Path

import polars as pl
import pytest
from datasets import Dataset, get_dataset_config_names, load_dataset
from huggingface_hub import DatasetCard

from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from command import Command

THINK = "<think>{} so {}</think> <answer>{}</answer> <confidence>0.50</confidence>"


@pytest.fixture
def folder(calibsft: Command, tmp_path: Path) -> Path:
    """A training set of ten questions, some answers to each of which are right."""
    rows = [
        {
            "question_id": f"q{i}",
            "question": f"What is {i}*7?",
            "response": THINK.format(i, answer, answer),
            "correct": answer == 7 * i,
        }
        for i in range(10)
        for answer in (7 * i, 7 * i, 7 * i + 1)
    ]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, said = calibsft("build", "pool.jsonl", "--out", "data")
    assert code == 0, said
    return tmp_path / "data"


def loaded(folder: Path, table: str = "default") -> Dataset:
    return load_dataset(str(folder), table, split="train", cache_dir=str(folder.parent / "cache"))


def test_the_folder_loads_with_one_call(folder: Path) -> None:
    assert get_dataset_config_names(str(folder)) == ["default", "labels"]
    plain = load_dataset(str(folder), cache_dir=str(folder.parent / "cache"))["train"]
    assert plain.to_list() == loaded(folder).to_list() == pl.read_parquet(folder / "sft.parquet").to_dicts()
    labels = loaded(folder, "labels")
    assert len(labels) == 30 and "label_numerator" in labels.column_names


def test_prompt_and_completion_are_what_calibsft_trains_on(folder: Path) -> None:
    tokenizer, prompting = build_tokenizer(), Prompting(get_format("probability"))
    rows = loaded(folder)
    assert len(rows) > 0
    for row in rows:
        ids = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=False)
        assert tuple(ids) == prompting.ids(tokenizer, row["question"])
        assert row["completion"] == [{"role": "assistant", "content": row["response"]}]


def test_the_card_names_every_column(folder: Path) -> None:
    card = DatasetCard.load(folder / "README.md")
    assert card.data.tags == ["calibration", "confidence", "calibsft"]
    assert all(f"`{name}`" in card.text for name in pl.read_parquet_schema(folder / "sft.parquet"))


def test_trl_trains_on_it_as_it_is(folder: Path, random_checkpoint: Path, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    options = {"max_steps": 2, "per_device_train_batch_size": 2, "use_cpu": True, "report_to": "none"}
    trainer = SFTTrainer(
        str(random_checkpoint),
        args=SFTConfig(str(tmp_path / "out"), bf16=False, save_strategy="no", **options),
        train_dataset=loaded(folder),
    )
    batch = next(iter(trainer.get_train_dataloader()))
    trained = batch["labels"] != -100
    text = trainer.processing_class.decode(batch["input_ids"][0][trained[0]])
    assert text.startswith("<think>") and "</confidence>" in text and "PROBLEM" not in text
    trainer.train()
    assert trainer.state.global_step == 2
