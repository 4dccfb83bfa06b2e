"""Evaluate a model on benchmarks: sample, verify and score, also under token budgets and with other estimators.

Uses the same sampling and the same verifier as the training data. Writes `rows.parquet` with one row per response, from
which every metric, figure and decision can be recomputed. `budgets/` holds the same for every budget, and `budgets.json`
their metrics. `estimators/` and `estimators.json` hold the results of other estimators.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from calibsft.artifacts import JUDGE_CACHE, shards, write_json, write_parquet
from calibsft.cards import add_calibration
from calibsft.engines import EngineSettings, load_engine
from calibsft.errors import InputError
from calibsft.estimators import Estimator, Evaluated, choose_estimators
from calibsft.evaluation.settings import EvalSettings
from calibsft.files.parquet import ROWS as ROWS
from calibsft.judge.settings import JudgeSettings
from calibsft.metrics import score_table
from calibsft.questions import evaluated_benchmark
from calibsft.responses.formats import Format
from calibsft.schema import KEYS, Question
from calibsft.verify.judged import AnswerJudge, load_answer_judge
from calibsft.verify.verdicts import verify_responses

if TYPE_CHECKING:
    from calibsft.engines.engine import NextTokens
    from calibsft.rollouts.collect import Collector

METRICS = "metrics.json"
BUDGETS = "budgets"
ESTIMATES = "estimators.json"


def evaluate_model(
    model_name: str,
    engine: EngineSettings,
    settings: EvalSettings,
    judge: JudgeSettings,
    confidence_format: Format,
    seed: int,
    folder: Path,
    device: str,
    dtype: str,
    label: str,
) -> dict[str, Any]:
    """Fill `folder` with rollouts, verdicts, rows and metrics; returns facts for the manifest."""
    require_benchmarks(settings)
    estimators = choose_estimators(settings.estimators, confidence_format)
    # First, so that errors show before the slow loading of libraries and model.
    benchmarks = Benchmarks(settings)
    from calibsft.rollouts.collect import make_collector

    loaded_engine = load_engine(engine, model_name, device, dtype)
    collector = make_collector(loaded_engine, confidence_format, settings, seed)
    evaluated = _evaluated(collector, settings, model_name, folder, label)
    for estimator in estimators:
        estimator.check(evaluated)
    loaded = load_answer_judge(judge, folder / JUDGE_CACHE, device, dtype)
    facts = evaluate_with(collector, settings, folder, label, benchmarks, loaded)
    if len(estimators) > 1:
        _compare_estimators(estimators, evaluated)
    scores, name = read_metrics(folder), confidence_format.name
    add_calibration(model_name, name, scores, _sampled(settings), settings.limit)
    return {"model": model_name, **facts}


def _sampled(settings: EvalSettings) -> str:
    """How responses were sampled, in a few words."""
    samples = (
        f"{settings.samples} responses" if settings.samples else "each benchmark's own number of responses"
    )
    return f"{samples} a question at temperature {settings.temperature:g}"


class Benchmarks:
    """The benchmarks that the settings name, with their questions up to the limit."""

    def __init__(self, settings: EvalSettings) -> None:
        self._samples = settings.samples
        found = [evaluated_benchmark(name) for name in dict.fromkeys(settings.benchmarks)]
        self._benchmarks = {benchmark.name: benchmark for benchmark in found}
        if len(self._benchmarks) < len(found):
            names = [benchmark.name for benchmark in found]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"'{twice}' is the name of two sets of questions; rename the file of that name")
        for name in (name for name, benchmark in self._benchmarks.items() if benchmark.training):
            raise InputError(
                f"'{name}' is for training, not for evaluation; take another one of `calibsft ls benchmarks`"
            )
        data_dir = Path(settings.data_dir) if settings.data_dir else None
        self.questions: list[Question] = [
            question
            for benchmark in self._benchmarks.values()
            for question in list(benchmark.load(data_dir))[: settings.limit]
        ]

    def samples(self, question: Question) -> int:
        return self._samples or self._benchmarks[question.dataset].samples

    @property
    def domains(self) -> dict[str, str]:
        return {name: benchmark.domain for name, benchmark in self._benchmarks.items()}

    @property
    def versions(self) -> dict[str, int]:
        return {name: benchmark.version for name, benchmark in self._benchmarks.items()}


def evaluate_with(
    collector: "Collector",
    settings: EvalSettings,
    folder: Path,
    label: str,
    benchmarks: Benchmarks,
    judge: AnswerJudge | None = None,
) -> dict[str, Any]:
    """Like `evaluate_model`, with a loaded model and loaded benchmarks, and for stated confidences only."""
    rollouts = folder / "rollouts"
    tokens = collector.collect(
        benchmarks.questions, benchmarks.samples, rollouts, settings.shard_questions, label
    )
    graders = _verify_and_score(collector, benchmarks, folder, label, judge)
    if settings.budgets:
        _evaluate_budgets(collector, settings, benchmarks, folder, label, judge)
    return {
        "tokens": tokens,
        "benchmarks": benchmarks.versions,
        "verifier": graders,
        "device": collector.engine.device,
    }


def _verify_and_score(
    collector: "Collector", benchmarks: Benchmarks, folder: Path, label: str, judge: AnswerJudge | None
) -> list[str]:
    """Verdicts, rows and metrics for the rollouts in `folder`; returns the names of the graders."""
    rollouts, verdicts = folder / "rollouts", folder / "verdicts"
    graders = verify_responses(rollouts, collector.format, verdicts, f"{label}, verify", judge)
    rows = result_rows(rollouts, verdicts, benchmarks.domains)
    write_parquet(folder / ROWS, rows)
    write_json(folder / METRICS, score_table(rows.drop_nulls("correct")))
    return graders


def _evaluate_budgets(
    collector: "Collector",
    settings: EvalSettings,
    benchmarks: Benchmarks,
    folder: Path,
    label: str,
    judge: AnswerJudge | None,
) -> None:
    from calibsft.rollouts.budgets import cut_rollouts

    results = []
    for budget in sorted(settings.budgets):
        under, name = folder / BUDGETS / str(budget), f"{label}, {budget} tokens"
        cut_rollouts(collector, benchmarks.questions, folder / "rollouts", budget, under / "rollouts", name)
        _verify_and_score(collector, benchmarks, under, name, judge)
        forced = pl.read_parquet(under / ROWS, columns=["forced"])["forced"].mean()
        results.append({"budget": budget, "forced": forced, **read_metrics(under)})
    write_json(folder / f"{BUDGETS}.json", results)


def _evaluated(
    collector: "Collector", settings: EvalSettings, model_name: str, folder: Path, label: str
) -> Evaluated:
    """The input of estimators; probabilities come from the served copy of the model if there is one."""
    model: NextTokens = collector.engine
    if settings.estimator_url is not None:
        from calibsft.engines.served import ServedModel

        served_as = settings.estimator_model or model_name
        model = ServedModel(settings.estimator_url, served_as, collector.tokenizer)
    return Evaluated(folder, collector.format, label, collector.tokenizer, model)


def _compare_estimators(estimators: Sequence[Estimator], evaluated: Evaluated) -> None:
    """Write rows and metrics of every estimator; those of the first, the verbalized one, exist already."""
    rows = pl.read_parquet(evaluated.folder / ROWS)
    first, *others = estimators
    results = [{"estimator": first.name, **read_metrics(evaluated.folder)}]
    for estimator in others:
        estimates = estimator.estimate(evaluated, rows)
        write_parquet(evaluated.estimates / f"{estimator.name}.parquet", estimates)
        results.append({"estimator": estimator.name, **score_table(estimates.drop_nulls("correct"))})
    write_json(evaluated.folder / ESTIMATES, results)


def require_benchmarks(settings: EvalSettings) -> None:
    if not settings.benchmarks:
        raise InputError(
            "no benchmark to evaluate on; name some in eval.benchmarks or with --benchmarks, or give a file with --questions"
        )


def result_rows(rollouts: Path, verdicts: Path, domains: Mapping[str, str]) -> pl.DataFrame:
    """One row per response: what it said, whether it was right, and its split."""
    graded = pl.concat([pl.read_parquet(shard) for shard in shards(verdicts)])
    sampled = pl.concat([pl.read_parquet(shard) for shard in shards(rollouts)])
    kept = [
        name for name in ("response", "finished", "confidence_entropy", "forced") if name in sampled.columns
    ]
    # Only success rates need `ending`; here `finished` and `forced` say how a response ended.
    joined = graded.drop("ending").join(
        sampled.select(*KEYS, *kept), on=KEYS, validate="1:1", maintain_order="left"
    )
    return joined.with_columns(split=pl.col("dataset").replace_strict(domains, return_dtype=pl.String))


def read_metrics(folder: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    return metrics


def read_budgets(folder: Path) -> list[dict[str, Any]]:
    """The metrics under every budget, in ascending order; empty if there were no budgets."""
    return _read_list(folder / f"{BUDGETS}.json")


def read_estimators(folder: Path) -> list[dict[str, Any]]:
    """The metrics of every estimator, the verbalized one first; empty if there was no other."""
    return _read_list(folder / ESTIMATES)


def _read_list(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return found
