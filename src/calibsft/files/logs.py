"""Logs of other programs, read as tables of responses with our columns. Each kind is recognised by its content.

Each kind has a file beside this one, which recognises its logs and gives rows; this file makes tables and batches of
them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.files import chats, inspect_logs, jsonl, lm_eval_logs
from calibsft.files.batches import Asked, Batch
from calibsft.files.dialect import OURS, Dialect

BATCH_ROWS = 10_000
# Lists that our columns may hold; any other list or record of a log is left out of a table.
LISTS = ("gold", "token_ids")


@dataclass(frozen=True, slots=True)
class Log:
    """One kind of log.

    Attributes
    ----------
    recognises : whether the content of a file is of this kind.
    records : its responses, as rows with our columns.
    """

    recognises: Callable[[Path], bool]
    records: Callable[[Path, Dialect], Iterator[dict[str, Any]]]

    def whole(self, path: Path, dialect: Dialect) -> pl.DataFrame:
        """All responses, without lists and records that no column of ours holds."""
        flat = [
            {name: value for name, value in record.items() if _is_cell(value, dialect.meanings(name))}
            for record in self.records(path, dialect)
        ]
        return jsonl.table_of(path, flat, dialect)

    def batches(self, path: Path, asked: Asked) -> Iterator[Batch]:
        """The wanted columns as texts."""
        before, found = 0, set[str]()
        every = self.records(path, asked.dialect or OURS)
        while records := list(islice(every, BATCH_ROWS)):
            batch = jsonl.batch_of_records(path, records, asked, before)
            before += len(records)
            found.update(*records)
            yield batch
        if before:
            asked.among(path, list(found))

    def names(self, path: Path) -> list[str]:
        """The columns of the first responses."""
        first = islice(self.records(path, OURS), jsonl.FIRST_RECORDS)
        return list(dict.fromkeys(name for record in first for name in record))


LOGS: dict[str, Log] = {
    "chats": Log(chats.recognises, chats.records),
    "inspect": Log(inspect_logs.recognises, inspect_logs.records),
    "lm-eval": Log(lm_eval_logs.recognises, lm_eval_logs.records),
}


def log_of(path: Path) -> Log | None:
    """The kind of log that a file is; None for a plain table."""
    return next((log for log in LOGS.values() if log.recognises(path)), None)


def _is_cell(value: Any, meanings: tuple[str, ...]) -> bool:
    return not isinstance(value, list | dict) or not set(LISTS).isdisjoint(meanings)
