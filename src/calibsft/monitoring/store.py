"""Remembers responses until their labels arrive, and what these say of each policy, in SQLite.

An accepted label is on disk before it is acknowledged, together with the state that follows from
it. So neither a kill nor a power cut loses one, and none counts twice. A response without a label
is forgotten once `limit` newer ones were remembered; after a power cut the newest may be missing,
since to wait for the disk at every response would cost milliseconds. Labels are never forgotten.

Each call is one short transaction: a twentieth of a millisecond, and the time of a disk write for a
label, or where SQLite tidies its journal. Keeps no state in memory, so several processes can share
the file.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Self

from calibsft.decisions.policy import Policy
from calibsft.errors import InputError
from calibsft.files.cells import shown
from calibsft.monitoring.feedback import Feedback, Reason, Refused
from calibsft.monitoring.promise import Promise
from calibsft.monitoring.state import State

LIMIT = 1_000_000
# How long another process may hold the file.
PATIENCE_SECONDS = 1.0
# Marks a SQLite file as one of these, with its version: "Cali".
APPLICATION, VERSION = 0x43616C69, 1
# `correct` is empty until a response has its label.
TABLES = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    policy TEXT NOT NULL,
    answered INTEGER NOT NULL,
    correct INTEGER,
    strong_correct INTEGER
);
CREATE TABLE policies (
    id TEXT PRIMARY KEY,
    otherwise TEXT NOT NULL,
    budget REAL NOT NULL,
    delta REAL NOT NULL,
    labels INTEGER NOT NULL,
    events INTEGER NOT NULL,
    lower_bound REAL NOT NULL,
    alarmed_at INTEGER
);
"""
ADD_POLICY = """
INSERT OR IGNORE INTO policies
VALUES (:id, :otherwise, :budget, :delta, :labels, :events, :lower_bound, :alarmed_at)
"""
SAVE_STATE = """
UPDATE policies SET labels = :labels, events = :events, lower_bound = :lower_bound, alarmed_at = :alarmed_at
WHERE id = :id
"""
READ_STATE = "SELECT budget, delta, labels, events, lower_bound, alarmed_at FROM policies WHERE id = ?"
READ_RESPONSE = """
SELECT policy, answered, correct IS NOT NULL, otherwise, budget, delta
FROM responses JOIN policies ON policies.id = responses.policy WHERE responses.id = ?
"""
SAVE_LABEL = "UPDATE responses SET correct = :correct, strong_correct = :strong_correct WHERE id = :id"


class FeedbackStore:
    """The responses of a policy and their labels; the file may hold those of earlier policies.

    Calls may come from several threads; they wait for each other.

    Parameters
    ----------
    path : the file, made if there is none; SQLite keeps two more beside it while it is open.
    policy : whose responses are remembered.
    limit : how many responses after it one without a label is forgotten.
    """

    def __init__(self, path: Path, policy: Policy, limit: int = LIMIT) -> None:
        if limit < 1:
            raise InputError(f"limit is {limit}; remember at least 1 response")
        self._path, self._policy_id, self._limit = path, policy.id, limit
        promise = Promise.of(policy)
        self._lock = Lock()
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(promise)
            except BaseException:
                self._file.close()
                raise

    def remember(self, id: str, answered: bool) -> State:
        """Keep a response for its label; `answered`: it is the local model's own answer.

        Returns what the labels so far say of the policy: other processes may have counted some.
        """
        with self._transaction():
            try:
                added = self._file.execute(
                    "INSERT INTO responses (id, policy, answered) VALUES (?, ?, ?)",
                    (id, self._policy_id, answered),
                )
            except sqlite3.IntegrityError:
                raise InputError(
                    f"{self._path}: there is a response {shown(id)} already; give each its own id"
                ) from None
            assert added.lastrowid is not None
            self._forget("number = ?", added.lastrowid - self._limit)
            return self._read_state(self._policy_id)

    def label(self, feedback: Feedback) -> tuple[str, State]:
        """Count a label: the id of the policy that decided its response, and that policy's state.

        Raises
        ------
        Refused : the label does not count, for one of the reasons in `Reason`.
        """
        with self._transaction(durable=True):
            found = self._file.execute(READ_RESPONSE, (feedback.id,)).fetchone()
            if found is None:
                raise Refused(
                    Reason.UNKNOWN_ID,
                    f"feedback: no response has the id {shown(feedback.id)}, or it is forgotten; send the id that came with it",
                )
            policy, answered, labelled, *promised = found
            if labelled:
                raise Refused(
                    Reason.ALREADY_LABELLED,
                    f"feedback: response {shown(feedback.id)} has its label already; send one label per response",
                )
            event = Promise(*promised).event(bool(answered), feedback)
            state = self._read_state(policy).after(event)
            self._file.execute(SAVE_LABEL, feedback.model_dump())
            self._file.execute(SAVE_STATE, {**asdict(state), "id": policy})
        return policy, state

    @property
    def state(self) -> State:
        """What the labels so far say of the policy."""
        with self._lock, self._explained():
            return self._read_state(self._policy_id)

    def close(self) -> None:
        with self._lock:  # a label that is under way in another thread
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self, promise: Promise) -> None:
        """Make or check the tables, add the policy, and forget what is beyond the limit."""
        self._require_own()
        self._file.execute("PRAGMA journal_mode = WAL")
        with self._transaction(durable=True):
            if self._require_own() == 0:
                for statement in TABLES.split(";"):
                    self._file.execute(statement)
                self._file.execute(f"PRAGMA application_id = {APPLICATION}")
                self._file.execute(f"PRAGMA user_version = {VERSION}")
            state = asdict(promise.state())
            self._file.execute(ADD_POLICY, {**state, "id": self._policy_id, "otherwise": promise.otherwise})
            (newest,) = self._file.execute("SELECT coalesce(max(number), 0) FROM responses").fetchone()
            self._forget("number <= ?", newest - self._limit)

    def _require_own(self) -> int:
        """The number of tables; refuses a file with tables of others, or of another version."""
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = self._file.execute("PRAGMA application_id").fetchone()
        (version,) = self._file.execute("PRAGMA user_version").fetchone()
        if tables and (application, version) != (APPLICATION, VERSION):
            what = (
                "a file of labels of another version" if application == APPLICATION else "no file of labels"
            )
            raise InputError(f"{self._path}: this is {what}; choose another file")
        return int(tables)

    def _read_state(self, policy: str) -> State:
        return State(*self._file.execute(READ_STATE, (policy,)).fetchone())

    def _forget(self, which: str, number: int) -> None:
        self._file.execute(f"DELETE FROM responses WHERE {which} AND correct IS NULL", (number,))

    @contextmanager
    def _transaction(self, durable: bool = False) -> Iterator[None]:
        """All or nothing; if `durable`, on the disk in the end, so that no power cut loses it."""
        with self._lock, self._explained():
            self._file.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._file.execute("BEGIN IMMEDIATE")
            with self._file:  # commits, or undoes everything if there is an exception
                yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in one sentence what is wrong with the file."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            remedy = "free some space, check who may write there, or choose another file"
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                remedy = "another process holds it; end that process, or choose another file"
            raise InputError(f"{self._path}: labels cannot be kept ({error}); {remedy}") from error
