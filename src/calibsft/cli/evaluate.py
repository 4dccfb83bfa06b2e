"""`calibsft eval`: sample, verify and score a model on benchmarks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibsft.artifacts import model_inputs
from calibsft.cli.options import (
    AsJson,
    DataDir,
    Device,
    Dtype,
    FormatName,
    Fresh,
    HashCheck,
    JudgeModel,
    JudgeUrl,
    Out,
    Seed,
    Stop,
    judge_settings,
    listed,
    perform,
    print_scores,
)

if TYPE_CHECKING:
    from calibsft.engines import EngineSettings
    from calibsft.evaluation.settings import EvalSettings
    from calibsft.verify.judge.settings import JudgeSettings


def evaluate(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id.")],
    out: Out,
    benchmarks: Annotated[
        str | None,
        typer.Option("--benchmarks", help="Comma-separated names; `calibsft ls benchmarks` lists them."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            help="A test set of your own: CSV, JSONL or Parquet with question_id, question, gold (and optionally kind,"
            " tolerance), asked besides or instead of benchmarks.",
        ),
    ] = None,
    data_dir: DataDir = None,
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
    stop: Stop = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            help="Token budgets, e.g. 1000,2000: responses are cut there, and answer and confidence forced.",
        ),
    ] = None,
    estimators: Annotated[
        str,
        typer.Option(
            "--estimators",
            help="Where confidence is taken from, side by side, e.g. verbalized,token-probability,self-consistency.",
        ),
    ] = "verbalized",
    estimator_url: Annotated[
        str | None,
        typer.Option(
            "--estimator-url",
            help="OpenAI-compatible endpoint that serves the same model and gives its token probabilities; without one"
            " the loaded model does. The key comes from CALIBSFT_ESTIMATOR_API_KEY or OPENAI_API_KEY.",
        ),
    ] = None,
    estimator_model: Annotated[
        str | None, typer.Option("--estimator-model", help="The model's name there; default: --model.")
    ] = None,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sequences decoded side by side.")] = 64,
    format: FormatName = "probability",
    judge: JudgeModel = None,
    judge_url: JudgeUrl = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    as_json: AsJson = False,
) -> None:
    """Sample, verify and score a model on benchmarks, or on questions of your own (`--questions own.jsonl`).

    For example `calibsft eval --model M --benchmarks math-500,gsm8k --limit 20 --out eval`; everything is kept in --out, and
    a killed run goes on where it was.
    """
    from calibsft.engines import default_engine
    from calibsft.estimators import choose_estimators
    from calibsft.evaluation import read_budgets, read_estimators, read_metrics, require_benchmarks
    from calibsft.evaluation.settings import EvalSettings
    from calibsft.responses.formats import get_format
    from calibsft.settings import validated

    data = {
        "benchmarks": (*listed(benchmarks or ""), *([str(questions)] if questions else [])),
        "data_dir": str(data_dir) if data_dir else None,
        "samples": samples,
        "limit": limit,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop or ()),
        "budgets": listed(budgets or ""),
        "estimators": listed(estimators),
        "estimator_url": estimator_url,
        "estimator_model": estimator_model,
    }
    settings = validated(EvalSettings, data, "eval")
    require_benchmarks(settings)
    choose_estimators(settings.estimators, get_format(format))
    perform_evaluation(
        model,
        default_engine(max_rows=max_rows),
        settings,
        judge_settings(judge, judge_url),
        format,
        seed,
        device,
        dtype,
        out,
        fresh,
        "eval",
        hash_check,
    )
    others = {"budgets": read_budgets(out), "estimators": read_estimators(out)}
    print_scores({**read_metrics(out), **others}, as_json)


def perform_evaluation(
    model: str,
    engine: "EngineSettings",
    settings: "EvalSettings",
    judging: "JudgeSettings",
    format_name: str,
    seed: int,
    device: str,
    dtype: str,
    out: Path,
    fresh: bool,
    label: str,
    hash_check: bool = True,
) -> None:
    """Leave an evaluation in `out`, unless it is there already; progress lines call it `label`."""
    from calibsft.evaluation import evaluate_model
    from calibsft.questions import benchmark_inputs
    from calibsft.responses.formats import get_format

    confidence_format = get_format(format_name)
    shaped = {
        "model": model,
        "format": format_name,
        "seed": seed,
        "dtype": dtype,
        "eval": settings.model_dump(mode="json"),
        "judge": judging.model_dump(mode="json"),
    }

    def work(folder: Path) -> dict[str, Any]:
        facts = evaluate_model(
            model, engine, settings, judging, confidence_format, seed, folder, device, dtype, label
        )
        return {"label": model, **facts}

    inputs = {**model_inputs(model), **benchmark_inputs(settings.benchmarks, settings.data_dir)}
    perform(out, "eval", shaped, inputs, work, fresh, [model], hash_check)
