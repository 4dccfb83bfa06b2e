"""The file of labels: what is remembered, what counts for which policy, what is refused."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibsft.errors import InputError
from calibsft.monitoring import Feedback, FeedbackStore, Monitor, Reason, Refused, State
from gateway_process import policy

ABSTAINS, DEFERS = policy(otherwise="abstain"), policy(epsilon=0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.db"


def refused(store: FeedbackStore, id: str, correct: bool = True) -> Reason:
    before = store.state
    with pytest.raises(Refused) as error:
        store.label(Feedback(id=id, correct=correct))
    assert store.state == before
    assert str(error.value).startswith("feedback: ") and "\n" not in str(error.value)
    return error.value.reason


# What counts


def test_labels_give_the_states_of_a_monitor_also_across_restarts(path: Path) -> None:
    wrong = np.random.default_rng(0).random(300) < 0.25
    monitor = Monitor(0.1)
    for start in (0, 100, 200):
        with FeedbackStore(path, ABSTAINS) as store:
            assert store.state == monitor.state
            for number in range(start, start + 100):
                store.remember(f"r{number}", answered=True)
            for number in range(start, start + 100):
                expected = monitor.add(wrong[number])
                label = Feedback(id=f"r{number}", correct=not wrong[number])
                assert store.label(label) == (ABSTAINS.id, expected)
    assert monitor.state.alarm


def test_a_response_gets_its_label_after_a_restart(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("a", answered=True)
    with FeedbackStore(path, ABSTAINS) as store:
        assert store.label(Feedback(id="a", correct=False))[1] == State(0.1, 0.05).after(True)


def test_a_policy_that_defers_counts_deferred_responses_too(path: Path) -> None:
    with FeedbackStore(path, DEFERS) as store:
        for id, answered in (("kept", True), ("deferred", False), ("lost", True), ("both wrong", True)):
            store.remember(id, answered)
        store.label(Feedback(id="kept", correct=True))
        store.label(Feedback(id="deferred", correct=False))
        assert (store.state.labels, store.state.events) == (2, 0)
        store.label(Feedback(id="both wrong", correct=False, strong_correct=False))
        store.label(Feedback(id="lost", correct=False, strong_correct=True))
        assert (store.state.budget, store.state.labels, store.state.events) == (0.02, 4, 1)


def test_a_label_counts_for_the_policy_that_decided_its_response_alone(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("old", answered=True)
        store.remember("old too", answered=True)
        store.label(Feedback(id="old too", correct=False))
    with FeedbackStore(path, DEFERS) as store:
        assert store.state == State(0.02, 0.05)
        store.remember("new", answered=True)
        # The rules of its own policy hold: a wrong answer is an event without strong_correct.
        found, state = store.label(Feedback(id="old", correct=False))
        assert (found, state.budget, state.labels, state.events) == (ABSTAINS.id, 0.1, 2, 2)
        assert store.state == State(0.02, 0.05)
        assert store.label(Feedback(id="new", correct=True))[0] == DEFERS.id
    with FeedbackStore(path, ABSTAINS) as store:
        assert store.state == state


def test_labels_may_come_from_other_threads(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        for number in range(40):
            store.remember(f"r{number}", answered=True)
        labels = [Feedback(id=f"r{number}", correct=number % 4 > 0) for number in range(40)]
        threads = [
            threading.Thread(target=lambda part: [*map(store.label, part)], args=(labels[i::4],))
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for number in range(40, 60):
            store.remember(f"r{number}", answered=True)
        for thread in threads:
            thread.join()
        assert (store.state.labels, store.state.events) == (40, 10)


def test_two_processes_may_share_the_file(path: Path) -> None:
    # Connections of one process share nothing but the file either.
    with FeedbackStore(path, ABSTAINS) as one, FeedbackStore(path, ABSTAINS) as other:
        one.remember("a", answered=True)
        other.remember("b", answered=True)
        one.label(Feedback(id="b", correct=False))
        other.label(Feedback(id="a", correct=True))
        assert one.state == other.state and one.state.labels == 2


# What is refused


def test_unknown_and_labelled_ids_and_unanswered_responses_are_refused_with_the_reason(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("a", answered=True)
        store.remember("b", answered=False)
        store.label(Feedback(id="a", correct=True))
        assert refused(store, "c") is Reason.UNKNOWN_ID
        assert refused(store, "a\0") is Reason.UNKNOWN_ID
        assert refused(store, "' OR 1=1 --") is Reason.UNKNOWN_ID
        assert refused(store, "a", correct=False) is Reason.ALREADY_LABELLED
        assert refused(store, "b") is Reason.NOT_ANSWERED
        assert store.state.labels == 1


def test_a_refused_label_may_come_again_with_what_was_missing(path: Path) -> None:
    with FeedbackStore(path, DEFERS) as store:
        store.remember("a", answered=True)
        assert refused(store, "a", correct=False) is Reason.NEEDS_STRONG_CORRECT
        store.label(Feedback(id="a", correct=False, strong_correct=True))
        assert store.state.events == 1


def test_a_second_response_with_the_same_id_is_refused(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("a", answered=True)
        with pytest.raises(InputError, match="a response 'a' already; give each its own id"):
            store.remember("a", answered=False)
        store.label(Feedback(id="a", correct=True))
        with pytest.raises(InputError, match="already"):
            store.remember("a", answered=True)


# What is forgotten


def test_a_response_without_a_label_is_forgotten_after_so_many_newer_ones(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS, limit=3) as store:
        for id in "abcde":
            store.remember(id, answered=True)
            if id == "a":
                store.label(Feedback(id="a", correct=True))
        assert refused(store, "b") is Reason.UNKNOWN_ID
        assert refused(store, "a") is Reason.ALREADY_LABELLED
        for id in "cde":
            store.label(Feedback(id=id, correct=True))
        assert store.state.labels == 4


def test_unlabelled_responses_take_no_more_room_than_the_limit(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS, limit=50) as store:
        for number in range(500):
            store.remember(f"r{number}", answered=True)
    assert rows(path, "SELECT count(*) FROM responses") == [(50,)]


def test_a_lower_limit_forgets_when_the_file_is_opened(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        for number in range(20):
            store.remember(f"r{number}", answered=True)
        store.label(Feedback(id="r0", correct=True))
    with FeedbackStore(path, ABSTAINS, limit=5) as store:
        assert refused(store, "r14") is Reason.UNKNOWN_ID
        store.label(Feedback(id="r15", correct=True))
        assert refused(store, "r0") is Reason.ALREADY_LABELLED
    with pytest.raises(InputError, match="limit is 0; remember at least 1"):
        FeedbackStore(path, ABSTAINS, limit=0)


# The file itself


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_no_text_of_a_question_or_an_answer_is_kept_and_labels_are(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("a", answered=True)
        store.label(Feedback(id="a", correct=False, strong_correct=True))
    assert rows(path, "SELECT * FROM responses") == [(1, "a", ABSTAINS.id, 1, 0, 1)]


def test_every_commit_of_a_label_waits_for_the_disk(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        said: list[str] = []
        store._file.set_trace_callback(said.append)
        store.remember("a", answered=True)
        assert said[:2] == ["PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE"] and said[-1] == "COMMIT"
        said.clear()
        store.label(Feedback(id="a", correct=True))
        assert said[:2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"] and said[-1] == "COMMIT"
        (mode,) = store._file.execute("PRAGMA journal_mode").fetchone()
        assert mode == "wal"


def of_a_text(path: Path) -> None:
    path.write_bytes(b"this is a text, and not a short one: " * 100)


def of_others(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE responses (id)")
    connection.close()


def of_later(path: Path) -> None:
    FeedbackStore(path, ABSTAINS).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()


@pytest.mark.parametrize(
    "make, told",
    [
        (of_a_text, "labels cannot be kept (file is not a database); "),
        (of_others, "this is no file of labels; choose another file"),
        (of_later, "this is a file of labels of another version; choose another file"),
        (Path.mkdir, "labels cannot be kept (unable to open database file); "),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path, make: Any, told: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(InputError) as error:
        FeedbackStore(path, ABSTAINS)
    assert str(error.value).startswith(f"{path}: {told}")
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_file_that_another_process_holds_is_an_error_after_a_moment(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="another process holds it; end that process"):
            store.remember("a", answered=True)
        other.execute("ROLLBACK")
        other.close()
        store.remember("a", answered=True)


def fill(store: FeedbackStore) -> None:
    for number in range(1000):
        store.remember(f"r{number}" * 50, answered=True)


def test_a_full_disk_is_one_sentence_and_loses_nothing(path: Path) -> None:
    with FeedbackStore(path, ABSTAINS) as store:
        store.remember("a", answered=True)
        (pages,) = store._file.execute("PRAGMA page_count").fetchone()
        store._file.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match=r"labels cannot be kept \(database or disk is full\); free"):
            fill(store)
        store._file.execute("PRAGMA max_page_count = 1000000")
        store.remember("b", answered=True)
        store.label(Feedback(id="a", correct=True))
        store.label(Feedback(id="b", correct=True))
        assert store.state.labels == 2
