"""The sample logs of lm-evaluation-harness, `samples_TASK_DATE.jsonl`, which `--log_samples` writes.

A row is a response of the model to a document: its `target` is the gold, its filtered response the answer, its metrics are
columns of their names, and the only one of them is `correct`. A document that was sampled several times has as many rows,
and a metric of all of them together says nothing of one. The task stands in the file's name alone, so there is no `dataset`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.files import jsonl
from calibsft.files.dialect import Dialect
from calibsft.files.stated import stated_columns

KEYS = {"doc", "target", "resps", "filtered_resps"}


def recognises(path: Path) -> bool:
    """Whether the first row of a JSONL file is a sample of the harness."""
    return jsonl.is_name(path.name) and (jsonl.first_record(path) or {}).keys() >= KEYS


def records(path: Path, dialect: Dialect) -> Iterator[dict[str, Any]]:
    """Each response as a row."""
    for row, record in enumerate(jsonl.every_record(path), start=1):
        texts = _texts(record.get("resps"))
        if texts is None:
            raise InputError(
                f"{path}, row {row}: 'resps' holds no generated text; log a task that generates, whose responses can state"
                " a confidence"
            )
        sample = _sample(record, len(texts))
        for number, text in enumerate(texts):
            own = {"response": text, **({"sample": number} if len(texts) > 1 else {})}
            yield {**sample, **own, **stated_columns(sample, text, dialect)}


def _texts(responses: Any) -> list[str] | None:
    """The texts that the model gave to the only request of a document; None where it gave likelihoods or nothing."""
    inner = responses[0] if isinstance(responses, list) and len(responses) == 1 else None
    given = inner if isinstance(inner, list) else [inner]
    texts = [text for text in given if isinstance(text, str)]
    return texts if texts and len(texts) == len(given) else None


def _sample(record: Mapping[str, Any], texts: int) -> dict[str, Any]:
    """What the responses to a document have in common."""
    metrics = {name: record.get(name) for name in _names(record.get("metrics"))}
    answers = record["filtered_resps"] if isinstance(record.get("filtered_resps"), list) else []
    found = {
        "question_id": record.get("doc_id"),
        "question": _prompt(record),
        "gold": record.get("target"),
        "filter": record.get("filter"),
        **metrics,
    }
    if len(answers) == texts == 1 and isinstance(answers[0], str):
        found["answer"] = answers[0]
    if len(metrics) == texts == 1:
        found["correct"] = next(iter(metrics.values()))
    return {name: value for name, value in found.items() if value is not None}


def _names(metrics: Any) -> list[str]:
    return [name for name in metrics if isinstance(name, str)] if isinstance(metrics, list) else []


def _prompt(record: Mapping[str, Any]) -> str | None:
    """The text of the only request, as the harness logs it: a list of arguments, or a record of records."""
    given: Any = record.get("arguments")
    for _ in range(2):
        if isinstance(given, Mapping):
            given = next(iter(given.values()), None)
        elif isinstance(given, list):
            given = given[0] if given else None
    return given if isinstance(given, str) else None
