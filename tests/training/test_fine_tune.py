"""Fine-tuning as a stage: what the trainer optimises, what it leaves behind, and its contract with the library."""

import inspect
import json
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

from calibsft.artifacts import write_parquet
from calibsft.errors import InputError
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.settings import validated
from calibsft.sft.batches import training_order
from calibsft.sft.fine_tune import accumulation_steps, fine_tune
from calibsft.sft.settings import SftSettings
from calibsft.training.checkpoints import latest_checkpoint
from calibsft.training.settings import LoraSettings

FORMAT = FORMATS["probability"]
QUICK = SftSettings(
    steps=6, batch_size=8, micro_batch_size=8, learning_rate=1e-3, max_tokens=64, warmup_steps=2, save_every=2
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {
            "draw": 0, "question_id": str(i), "sample": 0, "question": f"{10 + i}*11", "correct": i % 2 == 0,
            "response": f"<think>{i:04d}+000</think><answer>{i:04d}</answer><confidence>0.{10 + i}</confidence>",
        }
        for i in range(20)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("data") / "sft.parquet"
    write_parquet(path, pl.DataFrame(rows))
    return path


def weights(folder: Path, name: str = "model") -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder / name)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def train(checkpoint: Path, data: Path, folder: Path, **changes: object) -> dict[str, object]:
    folder.mkdir()
    return fine_tune(
        str(checkpoint), data, QUICK.model_copy(update=changes), Prompting(FORMAT), 0, folder, "cpu"
    )


def test_accumulated_micro_batches_train_like_one_batch(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    train(random_checkpoint, data, tmp_path / "whole")
    start, whole = weights(random_checkpoint.parent, random_checkpoint.name), weights(tmp_path / "whole")
    for size in (1, 2, 4):
        train(random_checkpoint, data, tmp_path / f"cut{size}", micro_batch_size=size)
        assert losses(tmp_path / f"cut{size}") == pytest.approx(losses(tmp_path / "whole"), rel=1e-4)
        # Adam steps by the sign of a gradient that rounding alone decides, so that single weights may differ.
        apart = (weights(tmp_path / f"cut{size}") - whole).norm()
        assert apart < 0.05 * (whole - start).norm()


def test_the_checkpoint_loads_as_an_ordinary_one_with_a_card_and_nothing_pickled(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    facts = train(random_checkpoint, data, tmp_path / "run")
    files = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files
    assert not [name for name in files if name.endswith((".bin", ".pt", ".pth", ".pkl"))]
    assert not (tmp_path / "run" / "checkpoints").exists()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    assert tokenizer.chat_template
    assert "CalibSFT" not in (tmp_path / "run" / "model" / "README.md").read_text().split("---")[1]
    assert facts["final_loss"] == losses(tmp_path / "run")[-1]


def test_a_link_in_the_place_of_the_model_is_not_followed(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "model.partial").symlink_to(tmp_path / "mine")
    settings = QUICK.model_copy(update={"steps": 1})
    fine_tune(str(random_checkpoint), data, settings, Prompting(FORMAT), 0, tmp_path / "o", "cpu")
    assert list((tmp_path / "mine").iterdir()) == []
    assert weights(tmp_path / "o").numel() > 0 and not (tmp_path / "o" / "model").is_symlink()


def test_running_checkpoints_hold_no_pickle(
    random_checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("torch.save writes a pickle")

    monkeypatch.setattr(torch, "save", refuse)
    train(random_checkpoint, data, tmp_path / "run")


def test_training_changes_the_weights_and_lowers_the_loss(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    train(random_checkpoint, data, tmp_path / "run", steps=30)
    assert losses(tmp_path / "run")[-1] < 0.7 * losses(tmp_path / "run")[0]


def test_adapters_are_merged_into_an_ordinary_checkpoint(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    train(random_checkpoint, data, tmp_path / "run", lora=LoraSettings(rank=4, alpha=8), learning_rate=1e-2)
    files = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert "adapter_config.json" not in files
    tuned, base = weights(tmp_path / "run"), AutoModelForCausalLM.from_pretrained(random_checkpoint)
    before = torch.cat([parameter.detach().flatten() for parameter in base.parameters()])
    assert tuned.shape == before.shape
    assert not torch.equal(tuned, before)


def test_every_variant_trains_to_other_weights(random_checkpoint: Path, data: Path, tmp_path: Path) -> None:
    ends = {}
    for variant in ("calibsft", "confidence-only", "full-ce", "full-balanced", "correct-only"):
        train(random_checkpoint, data, tmp_path / variant, loss=variant)
        ends[variant] = weights(tmp_path / variant)
    for first in ends:
        for second in ends:
            assert first == second or not torch.allclose(ends[first], ends[second], atol=1e-4)


def test_the_order_of_training_takes_the_draws_in_turn() -> None:
    draws = [0] * 5 + [1] * 5
    order = training_order(draws, 18, seed=3)
    assert (
        set(order[:5]) == set(range(5))
        and set(order[5:10]) == set(range(5, 10))
        and set(order[10:15]) == set(range(5))
    )
    assert order == training_order(draws, 18, seed=3) != training_order(draws, 18, seed=4)
    assert order[:5] != order[10:15]


def test_a_batch_that_cannot_be_cut_evenly_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size 8 is not a multiple of micro_batch_size x devices"):
        accumulation_steps(SftSettings(batch_size=8, micro_batch_size=4), 3, 0)
    with pytest.raises(
        InputError, match=r"sft\.batch_size 8 is not a multiple of micro_batch_size 3; change either"
    ):
        validated(SftSettings, {"batch_size": 8, "micro_batch_size": 3}, "sft")
    assert accumulation_steps(SftSettings(batch_size=8, micro_batch_size=2), 2, 1) == 2
    with pytest.raises(InputError, match="accelerate launch"):
        accumulation_steps(SftSettings(), 1, 4)


def test_rows_too_long_for_the_limit_are_refused_with_the_remedy(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"longer than 10 tokens, the smaller .* raise sft\.max_tokens"):
        train(random_checkpoint, data, tmp_path / "run", max_tokens=10)


def test_a_torn_checkpoint_is_discarded(tmp_path: Path) -> None:
    for step, whole in ((2, True), (4, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if whole:
            (folder / "complete").write_text("")
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert not (tmp_path / "checkpoint-4").exists()


def test_the_library_still_has_the_extension_points_that_the_trainer_overrides() -> None:
    expected = {
        "_get_num_items_in_batch": ["self", "batch_samples", "device"],
        "compute_loss": ["self", "model", "inputs", "return_outputs", "num_items_in_batch"],
        "log": ["self", "logs", "start_time"],
        "_save": ["self", "output_dir", "state_dict"],
        "_save_optimizer_and_scheduler": ["self", "output_dir"],
        "_load_optimizer_and_scheduler": ["self", "checkpoint"],
        "_save_rng_state": ["self", "output_dir"],
        "_load_rng_state": ["self", "checkpoint"],
    }
    for name, parameters in expected.items():
        assert list(inspect.signature(getattr(Trainer, name)).parameters) == parameters, name
    assert Trainer.loss_is_scaled_for_ga is None


def test_correctness_written_as_words_is_read_as_such(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    words = pl.read_parquet(data).with_columns(
        pl.col("correct").replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    )
    write_parquet(tmp_path / "words.parquet", words)
    train(random_checkpoint, data, tmp_path / "booleans")
    train(random_checkpoint, tmp_path / "words.parquet", tmp_path / "words")
    assert losses(tmp_path / "words") == losses(tmp_path / "booleans")


def test_adapters_train_the_same_twice(random_checkpoint: Path, data: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        train(random_checkpoint, data, tmp_path / name, lora=LoraSettings(rank=4), learning_rate=1e-2)
    assert losses(tmp_path / "first") == losses(tmp_path / "second")


def test_gradient_checkpointing_changes_memory_and_not_the_loss(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    train(random_checkpoint, data, tmp_path / "plain")
    train(random_checkpoint, data, tmp_path / "checkpointing", gradient_checkpointing=True)
    assert losses(tmp_path / "checkpointing") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)


def test_adapters_for_modules_that_do_not_exist_are_refused(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"target_modules .*nope.* does not fit the model"):
        train(random_checkpoint, data, tmp_path / "run", lora=LoraSettings(target_modules=("nope",)))


def test_rows_longer_than_the_context_are_left_out_and_said(
    random_checkpoint: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pl.read_parquet(data)
    long = rows.head(1).with_columns(question=pl.lit("1" * 100), question_id=pl.lit("long"))
    write_parquet(tmp_path / "long.parquet", pl.concat([rows, long]))
    train(random_checkpoint, tmp_path / "long.parquet", tmp_path / "run", max_tokens=8192)
    assert "1 of 21 rows exceed 64 tokens and are left out" in capsys.readouterr().err
