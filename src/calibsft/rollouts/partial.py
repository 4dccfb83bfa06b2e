"""The finished samples of an unfinished shard, in a journal: a killed run loses seconds of work, not a shard.

Lines are written every few seconds, so that an engine that fills a shard in less time writes none. A damaged line is
skipped, and its sample is drawn again.
"""

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from time import monotonic
from typing import Any

from calibsft.schema import Rollout

SAVE_SECONDS = 2.0
# For samples that somebody pays for.
PAID_SECONDS = 0.2
Key = tuple[str, str, int]
_COLUMNS = [field.name for field in fields(Rollout)]


class PartialShard:
    """The samples of the shard at `path` that are finished so far; only those in `planned` count.

    `rows` has them by their keys. `paid` samples are written sooner.
    """

    def __init__(self, path: Path, planned: Iterable[Key], paid: bool = False) -> None:
        self._path = _journal(path)
        self._patience = PAID_SECONDS if paid else SAVE_SECONDS
        self._unsaved: list[Rollout] = []
        self._saved = monotonic()
        found = _read(self._path)
        self.rows = {key: found[key] for key in planned if key in found}

    def add(self, row: Rollout) -> None:
        """Keep one more sample; it is on disk a few seconds later."""
        self.rows[row.dataset, row.question_id, row.sample] = row
        self._unsaved.append(row)
        if monotonic() - self._saved >= self._patience:
            self.save()

    def save(self) -> None:
        """Write the samples that are not on disk yet."""
        if self._unsaved:
            lines = "".join(
                json.dumps({name: getattr(row, name) for name in _COLUMNS}) + "\n" for row in self._unsaved
            )
            with self._path.open("a", encoding="utf-8") as out:
                # An earlier run may have been killed within a line.
                out.write("\n" + lines if out.tell() else lines)
            self._unsaved = []
        self._saved = monotonic()


def remove_journal(path: Path) -> None:
    """Delete the journal of the complete shard at `path`, which holds its samples now."""
    _journal(path).unlink(missing_ok=True)


def _journal(path: Path) -> Path:
    return path.with_suffix(".samples.jsonl")


def _read(path: Path) -> dict[Key, Rollout]:
    if not path.is_file():
        return {}
    with path.open("rb") as lines:
        rows = [row for line in lines if (row := _row(line)) is not None]
    return {(row.dataset, row.question_id, row.sample): row for row in rows}


def _row(line: bytes) -> Rollout | None:
    try:
        data: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or set(data) != set(_COLUMNS) or not isinstance(data["token_ids"], list):
        return None
    return Rollout(**{**data, "token_ids": tuple(data["token_ids"])})
