"""The fine-tuning stage: makes a checkpoint with a model card from a training set and a model, resumably."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments
from transformers.trainer_utils import set_seed

from calibsft.artifacts.lineage import CALIBSFT
from calibsft.errors import InputError
from calibsft.files.cells import boolean_column
from calibsft.files.reading import read_table
from calibsft.models import context_length, load_model, load_tokenizer, require_one_gpu
from calibsft.progress import FIRST_PROCESS, warn
from calibsft.responses.prompts import Prompting
from calibsft.sft.batches import collate, training_order
from calibsft.sft.card import sft_card
from calibsft.sft.encode import Encoder, Example
from calibsft.sft.fitting_rows import balanced_again
from calibsft.sft.settings import SftSettings
from calibsft.sft.supervision import write_supervision
from calibsft.sft.tiled import FEW_LOGITS, add_tiled_losses, can_be_tiled
from calibsft.sft.trainer import CalibSftTrainer
from calibsft.training.adapters import with_adapters
from calibsft.training.agreement import require_agreement
from calibsft.training.final import require_savable, save_model
from calibsft.training.running import make_arguments, run

COLUMNS = ("question_id", "question", "response", "correct")


def fine_tune(
    model_name: str,
    data: Path,
    settings: SftSettings,
    prompting: Prompting,
    seed: int,
    folder: Path,
    device: str = "auto",
    label: str = "sft",
    step: str = CALIBSFT,
    identity: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train `model_name` on the rows of `data` (an `sft.parquet`) and write the checkpoint to `folder/model`.

    Returns facts for the manifest. `label` is the name of this training in progress lines, `step` that in a lineage,
    `identity` what all processes of a launcher must agree on.
    """
    tokenizer = load_tokenizer(model_name)
    rows = read_rows(data)
    set_seed(seed)  # before adapters are initialised
    # The trainer moves the model to its own device, one per process.
    model = load_model(model_name, "cpu", "float32")
    limit = min(settings.max_tokens, context_length(model) or settings.max_tokens)
    examples, rows = encode_rows(tokenizer, rows, prompting, limit, data, seed)
    if settings.lora:
        model = with_adapters(model, settings.lora)
    tiled = tile_losses(model, examples, settings)
    order = training_order(draws_of(rows), settings.steps * settings.batch_size, seed)
    planned = [examples[row] for row in order]
    trainer = make_trainer(model, tokenizer, planned, settings, seed, folder, device, tiled)
    require_agreement(identity or {})
    require_savable(trainer)
    run(trainer, folder, label, settings.steps, _note)
    final_loss = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1]
    save_model(trainer, folder, sft_card(model_name, settings, prompting, len(rows), final_loss, step))
    if FIRST_PROCESS:
        write_supervision(folder, tokenizer, rows, examples, settings)
    return {
        "steps": settings.steps,
        "rows": len(rows),
        "final_loss": final_loss,
        "tokens": sum(map(len, planned)),
        "device": str(trainer.args.device),
    }


def read_rows(data: Path) -> pl.DataFrame:
    """The training rows of an `sft.parquet`, or of a user's file."""
    rows = read_table(data, COLUMNS).drop("prompt", "completion", strict=False)  # the same texts once more
    return rows.with_columns(boolean_column(data, rows, "correct"))


def draws_of(rows: pl.DataFrame) -> list[int]:
    """The balanced draw of each row; a set that was not drawn is one draw."""
    return rows["draw"].to_list() if "draw" in rows.columns else [0] * len(rows)


def encode_rows(
    tokenizer: PreTrainedTokenizerBase,
    rows: pl.DataFrame,
    prompting: Prompting,
    max_tokens: int,
    source: Path,
    seed: int,
) -> tuple[list[Example], pl.DataFrame]:
    """Every row as an example, and those rows; rows with more than `max_tokens` are left out with a warning.

    A balanced set is then balanced again, by the draw of `seed`.
    """
    encoder = Encoder(tokenizer, prompting.format)
    prompt_of = cache(partial(prompting.ids, tokenizer))
    sampled = rows["token_ids"].to_list() if "token_ids" in rows.columns else [None] * len(rows)
    examples: dict[int, Example] = {}
    texts = rows.select("question", "response", "correct").iter_rows()
    for row, ((question, response, correct), ids) in enumerate(zip(texts, sampled, strict=True)):
        try:
            example = encoder.encode(prompt_of(question), response, ids, correct)
        except InputError as error:
            raise InputError(f"{source}, row {row + 1}: {error}") from error
        if len(example) <= max_tokens:
            examples[row] = example
    if not examples:
        raise InputError(
            f"{source}: every row is longer than {max_tokens} tokens, the smaller of sft.max_tokens and the model's context;"
            " raise sft.max_tokens or take a model with a longer context"
        )
    kept = list(examples)
    if len(examples) < len(rows):
        kept = balanced_again(rows, kept, seed)
        more = f", and {len(examples) - len(kept)} others, so that every target is as frequent as before"
        warn(
            f"{source}: {len(rows) - len(examples)} of {len(rows)} rows exceed {max_tokens} tokens and are left out"
            + (more if len(kept) < len(examples) else "")
            + f"; {len(kept)} stay"
        )
    return [examples[row] for row in kept], rows[kept]


def tile_losses(
    model: PreTrainedModel | PeftModel, examples: Sequence[Example], settings: SftSettings
) -> bool:
    """Let the model compute losses in tiles if a micro-batch may have too many logits; returns whether it does.

    Decided from all examples, so that every process decides alike.
    """
    plain = model.get_base_model() if isinstance(model, PeftModel) else model
    longest = max(len(example.response) for example in examples)
    rows = min(settings.micro_batch_size, settings.batch_size)
    if rows * longest * plain.get_output_embeddings().weight.shape[0] <= FEW_LOGITS:
        return False
    if not can_be_tiled(plain):
        warn(
            "sft: this model changes the logits of its head, so all logits of a micro-batch are in memory at once; lower"
            " sft.micro_batch_size if memory is short"
        )
        return False
    add_tiled_losses(plain)
    return True


def make_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: Sequence[Example],
    settings: SftSettings,
    seed: int,
    folder: Path,
    device: str,
    tiled: bool = False,
) -> CalibSftTrainer:
    """A trainer whose global batch is exactly `settings.batch_size` on any number of devices; `tiled` as in `losses_at`."""
    arguments = make_arguments(
        TrainingArguments,
        folder,
        seed,
        device,
        max_steps=settings.steps,
        per_device_train_batch_size=min(settings.micro_batch_size, settings.batch_size),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
        logging_steps=1,
        save_steps=settings.save_every,
        report_to=list(settings.report_to),
        train_sampling_strategy="sequential",
        gradient_checkpointing=settings.gradient_checkpointing,
    )
    arguments.gradient_accumulation_steps = accumulation_steps(
        settings, arguments.world_size, arguments.n_gpu
    )
    return CalibSftTrainer(
        model=model,
        args=arguments,
        train_dataset=data,
        data_collator=collate,
        processing_class=tokenizer,
        sft=settings,
        tiled=tiled,
    )


def accumulation_steps(settings: SftSettings, world_size: int, gpus: int) -> int:
    """Micro-batches per step and device; refuses a batch that cannot be divided evenly."""
    require_one_gpu(gpus, "sft")
    at_once = min(settings.micro_batch_size, settings.batch_size) * world_size
    if settings.batch_size % at_once:
        raise InputError(
            f"sft.batch_size {settings.batch_size} is not a multiple of micro_batch_size x devices ({at_once}); change either"
        )
    return settings.batch_size // at_once


def _note(logs: dict[str, float]) -> str:
    return f"loss {logs['loss']:.4f}"
