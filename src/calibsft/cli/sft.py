"""`calibsft sft`: fine-tune on confidence targets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.artifacts import file_hash, model_inputs
from calibsft.cli.options import Device, FormatName, Fresh, HashCheck, Out, Seed, TrainingSet, perform
from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS


def sft(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id to fine-tune.")],
    data: Annotated[Path, typer.Option("--data", help="sft.parquet from `calibsft build`, or its folder.")],
    out: Out,
    overrides: TrainingSet = None,
    format: FormatName = "probability",
    seed: Seed = 0,
    device: Device = "auto",
    fresh: Fresh = False,
    hash_check: HashCheck = True,
) -> None:
    """Fine-tune with CalibSFT's loss: confidence on all responses, reasoning and answer on correct ones only.

    The defaults are the paper's (180 steps of 256 responses at 2e-6). Several GPUs: `accelerate launch -m calibsft sft …`.
    """
    from calibsft.responses.formats import get_format
    from calibsft.settings import parse_overrides, validated
    from calibsft.sft.settings import SftSettings

    settings = validated(SftSettings, parse_overrides(overrides or []), "sft")
    confidence_format = get_format(format)
    table = data / "sft.parquet" if data.is_dir() else data
    if not table.is_file():
        raise InputError(f"{table}: no such training set; make one with calibsft build")
    shaped = {"model": model, "format": format, "seed": seed, "sft": settings.model_dump(mode="json")}

    def work(folder: Path) -> dict[str, Any]:
        from calibsft.sft.fine_tune import fine_tune

        return fine_tune(model, table, settings, confidence_format, seed, folder, device)

    inputs = {"data": file_hash(table), **model_inputs(model)}
    perform(out, "sft", shaped, inputs, work, fresh, [model, table], hash_check)
    if FIRST_PROCESS:
        print(f"checkpoint: {out / 'model'}")
