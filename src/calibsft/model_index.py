"""An evaluation in the Hub's own forms: a card's `model-index`, and files in `.eval_results`.

Everything that was measured goes into the index, with how it was measured beside each value. The
files feed the leaderboards of benchmarks, so they have only accuracies on whole benchmarks that
have one. Does not read or write cards: that is `cards`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from calibsft.metrics.registry import shown_in

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

TASK, TASK_NAME = "text-generation", "Answers with a stated confidence"
# The Hub's ids of metrics that it knows; others keep our names.
HUB_METRICS = {"pass@1": "accuracy", "brier": "brier_score", "auroc": "roc_auc"}
# The argument of a result that says in which format the confidence was stated.
FORMAT = "confidence_format"


@dataclass(frozen=True, slots=True)
class HubDataset:
    """What the Hub calls the questions of a benchmark.

    Attributes
    ----------
    id
        The dataset on the Hub; empty for questions from elsewhere, which keep their own name.
    leaderboard
        The task of the dataset's leaderboard; empty if it has none, or if not all questions were asked.
    """

    id: str = ""
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    leaderboard: str = ""


def index_results(
    scores: Mapping[str, Any], datasets: Mapping[str, HubDataset], confidence_format: str, sampled: str
) -> "list[EvalResult]":
    """What an evaluation measured, metric by metric of every benchmark."""
    return [
        result
        for name, part in scores["datasets"].items()
        for result in _measured(name, part, datasets.get(name, HubDataset()), confidence_format, sampled)
    ]


def _measured(
    name: str, part: Mapping[str, Any], dataset: HubDataset, confidence_format: str, sampled: str
) -> "Iterator[EvalResult]":
    from huggingface_hub import EvalResult

    arguments = {FORMAT: confidence_format, "responses": part["n"], "sampled": sampled}
    for metric in shown_in("card"):
        value = part.get(metric.name)
        if value is None:  # such as AUROC where every answer is right
            continue
        convention = f", {part['ece_convention']}" if metric.name == "ece" else ""
        yield EvalResult(
            task_type=TASK,
            task_name=TASK_NAME,
            dataset_type=dataset.id or name,
            dataset_name=name,
            dataset_config=dataset.config,
            dataset_split=dataset.split,
            dataset_revision=dataset.revision,
            metric_type=HUB_METRICS.get(metric.name, metric.name),
            metric_name=metric.title + convention,
            metric_value=value,
            metric_args=arguments,
        )


def without_format(results: "Sequence[EvalResult]", confidence_format: str) -> "list[EvalResult]":
    """The results that were not measured in this confidence format."""
    return [result for result in results if _format_of(result) != confidence_format]


def _format_of(result: "EvalResult") -> Any:
    arguments = result.metric_args
    return arguments.get(FORMAT) if isinstance(arguments, dict) else None


def leaderboard_entries(
    scores: Mapping[str, Any], datasets: Mapping[str, HubDataset], confidence_format: str, sampled: str
) -> "dict[str, EvalResultEntry]":
    """The accuracy in percent on every benchmark that has a leaderboard, by the benchmark's name."""
    from huggingface_hub import EvalResultEntry

    boards = {name: datasets[name] for name in scores["datasets"] if name in datasets}
    return {
        name: EvalResultEntry(
            dataset_id=dataset.id,
            task_id=dataset.leaderboard,
            dataset_revision=dataset.revision,
            value=round(100 * scores["datasets"][name]["pass@1"], 2),
            date=datetime.now(UTC).date().isoformat(),
            notes=f"confidence stated as {confidence_format}; {sampled}",
        )
        for name, dataset in boards.items()
        if dataset.leaderboard
    }
