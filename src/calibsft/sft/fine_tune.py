"""The fine-tuning stage: makes a checkpoint with a model card from a training set and a model, resumably."""

from pathlib import Path
from typing import Any

import polars as pl
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, TrainingArguments
from transformers.trainer_utils import set_seed

from calibsft.artifacts import JOURNAL
from calibsft.errors import InputError
from calibsft.files.cells import boolean_column
from calibsft.files.reading import read_table
from calibsft.models import context_length, load_model, load_tokenizer, pick_device, require_one_gpu
from calibsft.progress import FIRST_PROCESS, Progress, warn
from calibsft.responses.formats import Format
from calibsft.responses.prompts import prompt_ids
from calibsft.sft.batches import PlannedExamples, collate, training_order
from calibsft.sft.card import sft_card
from calibsft.sft.encode import Encoder, Example
from calibsft.sft.fitting_rows import balanced_again
from calibsft.sft.settings import SftSettings
from calibsft.sft.supervision import write_supervision
from calibsft.sft.trainer import CalibSftTrainer
from calibsft.training.adapters import with_adapters
from calibsft.training.checkpoints import CHECKPOINTS, checkpoint_step, latest_checkpoint
from calibsft.training.final import require_savable, save_model
from calibsft.training.journal import Journal

COLUMNS = ("question_id", "question", "response", "correct")


def fine_tune(
    model_name: str,
    data: Path,
    settings: SftSettings,
    confidence_format: Format,
    seed: int,
    folder: Path,
    device: str = "auto",
    label: str = "sft",
) -> dict[str, Any]:
    """Train `model_name` on the rows of `data` (an `sft.parquet`) and write the checkpoint to `folder/model`.

    Returns facts for the manifest. `label` is the name of this training in progress lines.
    """
    tokenizer = load_tokenizer(model_name)
    rows = read_table(data, COLUMNS)
    rows = rows.with_columns(boolean_column(data, rows, "correct"))
    set_seed(seed)  # before adapters are initialised
    # The trainer moves the model to its own device, one per process.
    model = load_model(model_name, "cpu", "float32")
    limit = min(settings.max_tokens, context_length(model) or settings.max_tokens)
    examples, rows = encode_rows(tokenizer, rows, confidence_format, limit, data, seed)
    if settings.lora:
        model = with_adapters(model, settings.lora)
    draws = rows["draw"].to_list() if "draw" in rows.columns else [0] * len(rows)
    order = training_order(draws, settings.steps * settings.batch_size, seed)
    trainer = make_trainer(model, tokenizer, PlannedExamples(examples, order), settings, seed, folder, device)
    require_savable(trainer)
    checkpoint = latest_checkpoint(folder / CHECKPOINTS)
    with Progress(label, settings.steps, "steps", checkpoint_step(checkpoint)) as progress:
        trainer.add_callback(Journal(folder / JOURNAL, checkpoint_step(checkpoint), progress, _note))
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    save_model(
        trainer,
        folder,
        sft_card(model_name, settings, confidence_format, len(rows), history[-1]["loss"]),
    )
    if FIRST_PROCESS:
        write_supervision(folder, tokenizer, rows, examples, settings)
    tokens = sum(len(examples[row]) for row in order)
    return {
        "steps": settings.steps,
        "rows": len(rows),
        "final_loss": history[-1]["loss"],
        "tokens": tokens,
        "device": str(trainer.args.device),
    }


def encode_rows(
    tokenizer: PreTrainedTokenizerBase,
    rows: pl.DataFrame,
    confidence_format: Format,
    max_tokens: int,
    source: Path,
    seed: int,
) -> tuple[list[Example], pl.DataFrame]:
    """Every row as an example, and those rows; rows with more than `max_tokens` are left out with a warning.

    A balanced set is then balanced again, by the draw of `seed`.
    """
    encoder = Encoder(tokenizer, confidence_format)
    prompts: dict[str, tuple[int, ...]] = {}
    sampled = rows["token_ids"].to_list() if "token_ids" in rows.columns else [None] * len(rows)
    end = tokenizer.eos_token_id
    examples: dict[int, Example] = {}
    texts = rows.select("question", "response", "correct").iter_rows()
    for row, ((question, response, correct), ids) in enumerate(zip(texts, sampled, strict=True)):
        if question not in prompts:
            prompts[question] = prompt_ids(tokenizer, question, confidence_format)
        ids = ids[:-1] if ids and ids[-1] == end else ids
        try:
            example = encoder.encode(prompts[question], response, ids, correct)
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


def make_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: PlannedExamples,
    settings: SftSettings,
    seed: int,
    folder: Path,
    device: str,
) -> CalibSftTrainer:
    """A trainer whose global batch is exactly `settings.batch_size` on any number of devices."""
    on_cpu = pick_device(device).type == "cpu"
    arguments = TrainingArguments(
        output_dir=str(folder / CHECKPOINTS),
        max_steps=settings.steps,
        per_device_train_batch_size=min(settings.micro_batch_size, settings.batch_size),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
        optim="adamw_torch",
        adam_beta1=0.9,
        adam_beta2=0.999,
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        seed=seed,
        data_seed=seed,
        use_cpu=on_cpu,
        bf16=not on_cpu,
        report_to=list(settings.report_to),
        disable_tqdm=True,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        gradient_checkpointing=settings.gradient_checkpointing,
        dataloader_pin_memory=not on_cpu,
    )
    arguments.gradient_accumulation_steps = accumulation_steps(
        settings, arguments.world_size, arguments.n_gpu
    )
    trainer = CalibSftTrainer(
        model=model,
        args=arguments,
        train_dataset=data,
        data_collator=collate,
        processing_class=tokenizer,
        sft=settings,
    )
    # It prints every step to standard output, which is for results only.
    trainer.remove_callback(PrinterCallback)
    return trainer


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
