"""`calibsft eval`: sample, verify and score a model on benchmarks."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.artifacts import model_inputs
from calibsft.cli.options import (
    AsJson,
    Device,
    Dtype,
    FormatName,
    Fresh,
    Out,
    Seed,
    listed,
    perform,
    print_scores,
)


def evaluate(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id.")],
    out: Out,
    benchmarks: Annotated[str, typer.Option("--benchmarks", help="Comma-separated names.")],
    samples: Annotated[
        int | None,
        typer.Option("--samples", "-n", help="Responses per question; default: each benchmark's own."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first so many questions of each.")
    ] = None,
    temperature: float = 0.6,
    top_p: float = 1.0,
    max_new_tokens: int = 16384,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sequences decoded side by side.")] = 64,
    format: FormatName = "probability",
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Sample, verify and score a model on benchmarks."""
    from calibsft.evaluation import evaluate_model, read_metrics
    from calibsft.recipe import EvalSettings, validated
    from calibsft.responses.formats import get_format

    names = listed(benchmarks)
    data = {
        "benchmarks": names,
        "samples": samples,
        "limit": limit,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "max_rows": max_rows,
    }
    settings = validated(EvalSettings, data, "eval")
    confidence_format = get_format(format)
    shaped = {
        "model": model,
        "format": format,
        "seed": seed,
        "dtype": dtype,
        "eval": settings.model_dump(mode="json"),
    }

    def work(folder: Path) -> dict[str, Any]:
        facts = evaluate_model(model, settings, confidence_format, seed, folder, device, dtype, "eval")
        return {"label": model, **facts}

    perform(out, "eval", shaped, model_inputs(model), work, fresh)
    print_scores(read_metrics(out), as_json)
