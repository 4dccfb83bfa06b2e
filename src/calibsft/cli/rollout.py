"""`calibsft rollout`: sample responses from a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.artifacts import model_inputs
from calibsft.cli.options import (
    DataDir,
    Device,
    Dtype,
    FormatName,
    Fresh,
    HashCheck,
    Out,
    Seed,
    Stop,
    perform,
)
from calibsft.errors import InputError


def rollout(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id.")],
    out: Out,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            help="CSV, JSONL or Parquet with question_id, question, gold (and kind: the grader, else math).",
        ),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Instead of a file: a benchmark's questions, e.g. deepscaler."),
    ] = None,
    data_dir: DataDir = None,
    samples: Annotated[int, typer.Option("--samples", "-n", help="Responses per question.")] = 50,
    temperature: float = 1.0,
    top_p: float = 0.95,
    max_new_tokens: int = 8192,
    stop: Stop = None,
    force_answer: Annotated[
        bool,
        typer.Option(
            "--force-answer",
            help="Ask for the answer of a truncated response, so that it counts in the success rate.",
        ),
    ] = False,
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
    hash_check: HashCheck = True,
) -> None:
    """Sample responses from a model, n per question, into Parquet shards."""
    from calibsft.benchmarks import get_benchmark
    from calibsft.engines import default_engine
    from calibsft.questions import QuestionSettings, load_source, source_hash
    from calibsft.responses.formats import get_format
    from calibsft.rollouts.settings import RolloutSettings
    from calibsft.settings import validated

    data = {
        "samples": samples,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop or ()),
        "shard_questions": shard_questions,
        "force_answer": force_answer,
    }
    settings = validated(RolloutSettings, data, "rollout")
    engine, confidence_format = default_engine(max_rows=max_rows), get_format(format)
    if (questions is None) == (benchmark is None):
        raise InputError("give either --questions FILE or --benchmark NAME to say what to ask")
    source = get_benchmark(benchmark).name if benchmark else str(questions)
    asked = {"source": source, "data_dir": str(data_dir) if data_dir else None, "limit": limit}
    chosen = validated(QuestionSettings, asked, "rollout")
    loaded = load_source(chosen.source, chosen.data_dir)[: chosen.limit]
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

        collector = load_collector(model, engine, confidence_format, settings, seed, device, dtype)
        tokens = collector.collect(loaded, lambda _: samples, folder, settings.shard_questions, "rollout")
        return {"tokens": tokens, "device": collector.engine.device}

    inputs = {"questions": source_hash(source, chosen.data_dir), **model_inputs(model)}
    perform(out, "rollout", shaped, inputs, work, fresh, [model], hash_check)
