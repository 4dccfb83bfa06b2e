"""Evaluate a model on benchmarks: sample, verify and score, also under token budgets and with other estimators.

Uses the same sampling and the same verifier as the training data. Writes `rows.parquet` with one row per response, from
which every metric, figure and decision can be recomputed. `budgets/` holds the same for every budget, and `budgets.json`
their metrics. `estimators/` and `estimators.json` hold the results of other estimators.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from calibsft.artifacts import JUDGE_CACHE, shards, write_json, write_parquet, write_parquet_parts
from calibsft.benchmarks import Benchmark
from calibsft.cards import add_calibration, part_of
from calibsft.engines import EngineSettings, load_engine
from calibsft.errors import InputError
from calibsft.estimators import Estimator, Evaluated, choose_estimators
from calibsft.evaluation.settings import BenchmarkSettings, EvalSettings
from calibsft.files.parquet import ROWS as ROWS
from calibsft.hub import name_and_revision
from calibsft.judge.settings import JudgeSettings
from calibsft.metrics import score_table
from calibsft.model_index import HubDataset
from calibsft.questions import chosen, evaluated_benchmark
from calibsft.responses.prompts import Prompting
from calibsft.schema import KEYS, Question
from calibsft.verify.judged import AnswerJudge, load_answer_judge
from calibsft.verify.verdicts import verify_responses

if TYPE_CHECKING:
    from calibsft.engines.engine import NextTokens
    from calibsft.rollouts.collect import Collector

METRICS = "metrics.json"
BUDGETS = "budgets"
ESTIMATES = "estimators.json"
# The columns of rows that scores are made of.
SCORED = ("dataset", "question_id", "split", "confidence", "correct", "well_formed")


def evaluate_model(
    model_name: str,
    engine: EngineSettings,
    settings: EvalSettings,
    judge: JudgeSettings,
    prompting: Prompting,
    seed: int,
    folder: Path,
    device: str,
    dtype: str,
    label: str,
) -> dict[str, Any]:
    """Fill `folder` with rollouts, verdicts, rows and metrics; returns facts for the manifest."""
    require_benchmarks(settings)
    estimators = choose_estimators(settings.estimators, prompting.format)
    # First, so that errors show before the slow loading of libraries and model.
    benchmarks = Benchmarks(settings)
    from calibsft.rollouts.collect import make_collector

    loaded_engine = load_engine(engine, model_name, device, dtype)
    collector = make_collector(loaded_engine, prompting, settings, seed)
    evaluated = _evaluated(collector, settings, model_name, folder, label)
    for estimator in estimators:
        estimator.check(evaluated)
    loaded = load_answer_judge(judge, folder / JUDGE_CACHE, device, dtype)
    facts = evaluate_with(collector, settings, folder, label, benchmarks, loaded)
    if len(estimators) > 1:
        _compare_estimators(estimators, evaluated)
    scores, name = read_metrics(folder), prompting.format.name
    datasets = benchmarks.hub_datasets()
    add_calibration(model_name, name, scores, _sampled(settings), _part(settings), datasets)
    return {"model": model_name, **facts}


def _sampled(settings: EvalSettings) -> str:
    """How responses were sampled, in a few words."""
    samples = (
        f"{settings.samples} responses" if settings.samples else "each benchmark's own number of responses"
    )
    others = [f"{own.samples} of {name}" for name, own in settings.per_benchmark.items() if own.samples]
    but = f" ({', '.join(others)})" if others else ""
    return f"{samples} a question{but} at temperature {settings.temperature:g}"


def _part(settings: EvalSettings) -> str:
    """Which questions were asked, in a few words; empty for all of them."""
    own = {name: settings.asked(name) for name, s in settings.per_benchmark.items() if s.limit or s.subset}
    parts = [part_of("each benchmark", settings.limit, settings.subset)]
    parts += [part_of(name, asked.limit, asked.subset) for name, asked in own.items()]
    return ", ".join(filter(None, parts))


class Asked(Protocol):
    """The questions of an evaluation, and of each dataset its split and version."""

    questions: list[Question]
    domains: dict[str, str]
    versions: dict[str, int]

    def samples(self, question: Question) -> int: ...


class Benchmarks:
    """The benchmarks that the settings name, with the questions that are asked: at most `limit` of each, if given."""

    def __init__(self, settings: EvalSettings, limit: int | None = None) -> None:
        self._settings = settings
        self._benchmarks: dict[str, Benchmark] = {}
        for benchmark in map(evaluated_benchmark, dict.fromkeys(settings.benchmarks)):
            name = benchmark.name
            if name in self._benchmarks:
                raise InputError(
                    f"'{name}' is the name of two sets of questions; rename the file of that name"
                )
            if benchmark.training:
                raise InputError(
                    f"'{name}' is for training, not for evaluation; take another one of `calibsft ls benchmarks`"
                )
            self._benchmarks[name] = benchmark
        self.domains: dict[str, str] = {
            name: benchmark.domain for name, benchmark in self._benchmarks.items()
        }
        self.versions = {name: benchmark.version for name, benchmark in self._benchmarks.items()}
        data_dir = Path(settings.data_dir) if settings.data_dir else None
        self.questions: list[Question] = []
        for benchmark in self._benchmarks.values():
            asked = settings.asked(benchmark.name)
            questions = benchmark.at(asked.revision).load(data_dir)
            self.questions += chosen(questions, limit or asked.limit, asked.subset, settings.subset_seed)

    def hub_datasets(self) -> dict[str, HubDataset]:
        """What the Hub calls the questions; only benchmarks that are asked whole count for a leaderboard."""
        return {
            name: _hub_dataset(benchmark, self._settings.asked(name))
            for name, benchmark in self._benchmarks.items()
        }

    def samples(self, question: Question) -> int:
        own = self._benchmarks[question.dataset].samples
        return self._settings.asked(question.dataset).samples or own


def _hub_dataset(benchmark: Benchmark, asked: BenchmarkSettings) -> HubDataset:
    if not benchmark.hub:
        return HubDataset()
    place, whole = benchmark.at(asked.revision).place, not (asked.limit or asked.subset)
    board = benchmark.leaderboard if whole else ""
    return HubDataset(place.hub, place.config, place.split, place.revision, board)


def evaluate_with(
    collector: "Collector",
    settings: EvalSettings,
    folder: Path,
    label: str,
    benchmarks: Asked,
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
    collector: "Collector", benchmarks: Asked, folder: Path, label: str, judge: AnswerJudge | None
) -> list[str]:
    """Verdicts, rows and metrics for the rollouts in `folder`; returns the names of the graders."""
    rollouts, verdicts = folder / "rollouts", folder / "verdicts"
    graders = verify_responses(rollouts, collector.format, verdicts, f"{label}, verify", judge)
    parts = (result_rows(rollouts / shard.name, shard, benchmarks.domains) for shard in shards(verdicts))
    write_parquet_parts(folder / ROWS, parts, texts=("response",))
    scored = pl.scan_parquet(folder / ROWS).select(SCORED).drop_nulls("correct").collect()
    write_json(folder / METRICS, score_table(scored))
    return graders


def _evaluate_budgets(
    collector: "Collector",
    settings: EvalSettings,
    benchmarks: Asked,
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
        from calibsft.engines.next_tokens import served_copy

        served_as = settings.estimator_model or name_and_revision(model_name)[0]
        model = served_copy(settings.estimator_url, served_as, collector.tokenizer)
    return Evaluated(folder, collector.prompting, label, collector.tokenizer, model)


def _compare_estimators(estimators: Sequence[Estimator], evaluated: Evaluated) -> None:
    """Write rows and metrics of every estimator; those of the first, the verbalized one, exist already."""
    rows = rows_without_text(evaluated.folder)
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
    """One row per response of a shard: what it says, whether it was right, and its split."""
    known = pl.read_parquet_schema(rollouts)
    kept = [name for name in ("response", "finished", "confidence_entropy", "forced") if name in known]
    sampled = pl.read_parquet(rollouts, columns=[*KEYS, *kept])
    # Only success rates need `ending`; here `finished` and `forced` say how a response ended.
    graded = pl.read_parquet(verdicts).drop("ending")
    joined = graded.join(sampled, on=KEYS, validate="1:1", maintain_order="left")
    return joined.with_columns(split=pl.col("dataset").replace_strict(domains, return_dtype=pl.String))


def rows_without_text(folder: Path) -> pl.DataFrame:
    """The rows of an evaluation without what the responses say, which is most of the file."""
    return pl.scan_parquet(folder / ROWS).drop("response", strict=False).collect()


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
