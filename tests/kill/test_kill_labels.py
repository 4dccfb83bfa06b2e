"""kill -9 while labels arrive: acknowledged ones are there, once each, with their state."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from calibsft.decisions.policy import read_policy
from calibsft.monitoring import Feedback, FeedbackStore, Monitor, Reason, Refused
from command_process import kill_when
from gateway_process import policy_file

PROGRAM = """
import sys
from contextlib import suppress
from pathlib import Path
from calibsft.decisions.policy import read_policy
from calibsft.errors import InputError
from calibsft.monitoring import Feedback, FeedbackStore
labels, policy, acknowledged = map(Path, sys.argv[1:])
with FeedbackStore(labels, read_policy(policy)) as store, acknowledged.open("a", buffering=1) as file:
    start = store.state.labels
    for number in range(start, start + 100_000):
        with suppress(InputError):  # the kill came between the response and its label
            store.remember(f"r{number}", answered=True)
        store.label(Feedback(id=f"r{number}", correct=number % 4 > 0))
        file.write(f"{number}\\n")
"""

# The process kills itself before the statement of that number.
AT_STATEMENT = """
import os, signal, sys
from itertools import count
from pathlib import Path
from calibsft.decisions.policy import read_policy
from calibsft.monitoring import Feedback, FeedbackStore
labels, policy, fatal = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
numbers = count()
with FeedbackStore(labels, read_policy(policy)) as store:
    store.remember("a", answered=True)
    store._file.set_trace_callback(lambda _: next(numbers) == fatal and os.kill(os.getpid(), signal.SIGKILL))
    store.label(Feedback(id="a", correct=False))
"""


def acknowledged(path: Path) -> list[int]:
    """The numbers whose lines are whole."""
    return [int(line) for line in path.read_text().splitlines(True) if line.endswith("\n")] if path.exists() else []  # fmt: skip


def test_no_acknowledged_label_is_lost_or_counted_twice(tmp_path: Path) -> None:
    labels, said = tmp_path / "labels.db", tmp_path / "said"
    policy = policy_file(tmp_path, otherwise="abstain")
    promised = read_policy(policy)
    for _ in range(3):
        before = len(acknowledged(said))
        command = [sys.executable, "-c", PROGRAM, *map(str, (labels, policy, said))]
        kill_when(command, lambda before=before: len(acknowledged(said)) > before + 40)
        numbers, monitor = acknowledged(said), Monitor(promised.risk or 0, promised.delta)
        with FeedbackStore(labels, promised) as store:
            state = store.state
            # The last label may be there without its acknowledgement, never the other way round.
            assert state.labels - len(numbers) in (0, 1)
            for number in range(state.labels):
                monitor.add(number % 4 == 0)
            assert state == monitor.state
            for number in numbers:
                assert reason(store, f"r{number}") is Reason.ALREADY_LABELLED
        if state.labels > len(numbers):
            with said.open("a") as file:
                file.write(f"{state.labels - 1}\n")
    with sqlite3.connect(labels) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_kill_before_any_statement_leaves_a_label_with_its_state_or_neither(tmp_path: Path) -> None:
    policy = policy_file(tmp_path, otherwise="abstain")
    killed = 0
    while True:
        labels = tmp_path / f"labels-{killed}.db"
        command = [sys.executable, "-c", AT_STATEMENT, *map(str, (labels, policy, killed))]
        code = subprocess.run(command, check=False, timeout=200).returncode
        with FeedbackStore(labels, read_policy(policy)) as store:
            if code == 0:
                assert reason(store, "a") is Reason.ALREADY_LABELLED and store.state.events == 1
                break
            assert code == -signal.SIGKILL
            assert store.state.labels == 0
            store.label(Feedback(id="a", correct=False))
            assert (store.state.labels, store.state.events) == (1, 1)
        killed += 1
    assert killed >= 5, "a label takes several statements"


def reason(store: FeedbackStore, id: str) -> Reason:
    try:
        store.label(Feedback(id=id, correct=True))
    except Refused as refusal:
        return refusal.reason
    raise AssertionError("it counts again")
