"""`calibsft rollout`: sample responses from a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.artifacts import file_hash, model_inputs
from calibsft.cli.options import Device, Dtype, FormatName, Fresh, Out, Seed, perform


def rollout(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id.")],
    questions: Annotated[
        Path,
        typer.Option(
            "--questions",
            help="CSV, JSONL or Parquet with question_id, question, gold (and kind: exact or math).",
        ),
    ],
    out: Out,
    samples: Annotated[int, typer.Option("--samples", "-n", help="Responses per question.")] = 50,
    temperature: float = 1.0,
    top_p: float = 0.95,
    max_new_tokens: int = 8192,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="Text that ends a response. Repeatable.")
    ] = None,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sequences decoded side by side.")] = 64,
    shard_questions: Annotated[
        int, typer.Option("--shard-questions", help="Questions per Parquet shard, the unit of resuming.")
    ] = 100,
    limit: Annotated[int | None, typer.Option("--limit", help="Only the first so many questions.")] = None,
    format: FormatName = "probability",
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    fresh: Fresh = False,
) -> None:
    """Sample responses from a model, n per question, into Parquet shards."""
    from calibsft.benchmarks.files import load_questions
    from calibsft.recipe import QuestionSettings, RolloutSettings, validated
    from calibsft.responses.formats import get_format

    data = {
        "samples": samples,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop or ()),
        "max_rows": max_rows,
        "shard_questions": shard_questions,
    }
    settings = validated(RolloutSettings, data, "rollout")
    confidence_format = get_format(format)
    chosen = validated(QuestionSettings, {"source": str(questions), "limit": limit}, "rollout")
    loaded = load_questions(questions)[: chosen.limit]
    shaped = {
        "model": model,
        "format": format,
        "seed": seed,
        "limit": limit,
        "dtype": dtype,
        "rollout": settings.model_dump(mode="json"),
    }

    def work(folder: Path) -> dict[str, Any]:
        from calibsft.rollouts.load import load_collector

        collector = load_collector(model, confidence_format, settings, seed, device, dtype)
        tokens = collector.collect(loaded, lambda _: samples, folder, settings.shard_questions, "rollout")
        return {"tokens": tokens, "device": collector.device}

    perform(out, "rollout", shaped, {"questions": file_hash(questions), **model_inputs(model)}, work, fresh)
