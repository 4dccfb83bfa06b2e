"""`calibsft rl`: confidence-aware RL from a model and questions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.artifacts import JUDGE_CACHE, file_hash, model_inputs, read_manifest
from calibsft.cli.options import (
    Device,
    FormatName,
    Fresh,
    HashCheck,
    JudgeModel,
    JudgeUrl,
    Out,
    Seed,
    TrainingSet,
    judge_settings,
    listed,
    perform,
)
from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS


def rl(
    model: Annotated[str, typer.Option("--model", help="Checkpoint folder or Hub id to train.")],
    method: Annotated[str, typer.Option("--method", help="rlvr, rlcr, coca, dcpo, c3rl or redoubt.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            help="Questions: a CSV, JSONL or Parquet file with question_id, question, gold (and kind, success_rate),"
            " or the folder that `calibsft rollout` wrote.",
        ),
    ],
    out: Out,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            "--verdicts",
            help="Folder that `calibsft verify` wrote: gives success rates, so that solved questions are left out.",
        ),
    ] = None,
    overrides: TrainingSet = None,
    benchmarks: Annotated[
        str, typer.Option("--benchmarks", help="Comma-separated; evaluated every --set eval_every=N steps.")
    ] = "",
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sequences decoded side by side.")] = 64,
    format: FormatName = "probability",
    judge: JudgeModel = None,
    judge_url: JudgeUrl = None,
    seed: Seed = 43,
    device: Device = "auto",
    fresh: Fresh = False,
    hash_check: HashCheck = True,
) -> None:
    """Train with a reward for right answers and honest confidence.

    RLCR, CoCA and DCPO are the usual choices; start them from a model that CalibSFT has fine-tuned (`calibsft sft`), since
    RL learns only from confidence values that the model already says. C3RL needs --format integer. ReDoubt trains
    confidence alone and starts from a model that RLVR has trained. The defaults are the paper's. Several GPUs:
    `accelerate launch -m calibsft rl …`.
    """
    from calibsft.benchmarks import get_benchmark
    from calibsft.engines import default_engine
    from calibsft.evaluation.settings import EvalSettings
    from calibsft.responses.formats import get_format
    from calibsft.rl.fitting import require_fitting, require_format
    from calibsft.rl.methods import get_method
    from calibsft.rl.settings import RlSettings
    from calibsft.settings import parse_overrides, validated

    chosen, confidence_format, asked = (
        get_method(method),
        get_format(format),
        judge_settings(judge, judge_url),
    )
    settings = validated(RlSettings, parse_overrides(overrides or []), "rl")
    require_format(chosen, confidence_format)
    require_fitting(chosen, settings)
    engine, names = default_engine(max_rows=max_rows), listed(benchmarks)
    for name in names:
        get_benchmark(name)
    if bool(settings.eval_every) != bool(names):
        raise InputError(
            "eval_every needs benchmarks to evaluate on, and benchmarks eval_every; give both, as in"
            " --set eval_every=20 --benchmarks multiply-1"
        )
    sampled = {key: getattr(settings, key) for key in ("max_new_tokens", "stop")}
    evaluation = validated(EvalSettings, {"benchmarks": names, **sampled}, "eval")
    shaped = {
        "model": model,
        "method": method,
        "format": format,
        "seed": seed,
        "rl": settings.model_dump(mode="json"),
        "benchmarks": names,
        **({"judge": asked.model_dump(mode="json")} if judge else {}),
    }

    def work(folder: Path) -> dict[str, Any]:
        from calibsft.rl.questions import read_questions
        from calibsft.rl.train import train_policy
        from calibsft.verify.judge import load_judge

        questions, rates = read_questions(data, verdicts)
        return train_policy(
            model,
            questions,
            rates,
            chosen,
            settings,
            confidence_format,
            seed,
            folder,
            device,
            evaluation,
            judge=load_judge(asked, folder / JUDGE_CACHE, device),
            engine=engine,
        )

    inputs = _inputs(model, data, verdicts)
    perform(out, "rl", shaped, inputs, work, fresh, [model, data, verdicts], hash_check)
    if FIRST_PROCESS:
        print(f"checkpoint: {out / 'model'}")


def _inputs(model: str, data: Path, verdicts: Path | None) -> dict[str, str]:
    """Hashes of what is read, so that a resumed training notices when it has changed."""
    found = {"data": read_manifest(data)["content_hash"] if data.is_dir() else file_hash(data)}
    if verdicts is not None:
        found["verdicts"] = read_manifest(verdicts)["content_hash"]
    return found | model_inputs(model)
