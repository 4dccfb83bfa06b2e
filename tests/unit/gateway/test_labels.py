"""Labels of a gateway's responses: what counts, what is refused, what an alarm does, and that a restart forgets nothing."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest

from calibsft.gateway.completions import ABSTENTION
from gateway_process import Running, gateway, policy_file
from scripted_server import ANSWER, PATIENCE, QUESTION, Asked, Scripted, Sent, chats, confident, says

TOKEN = "token-canary"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def local(local_server: Scripted) -> Scripted:
    local_server.reset(lambda asked: says(confident("0.95")))
    return local_server


@pytest.fixture
def strong(strong_server: Scripted) -> Scripted:
    strong_server.reset(chats("from the strong model"))
    return strong_server


@pytest.fixture
def abstaining(tmp_path: Path, local: Scripted) -> Iterator[Running]:
    """Promises that at most 10 % of its answers are wrong; on an alarm it abstains on everything."""
    rules = policy_file(tmp_path, otherwise="abstain", on_alarm="abstain")
    secrets = {"CALIBSFT_SERVE_TOKEN": TOKEN}
    with gateway(
        rules, local.url, local_model="l", labels=tmp_path / "labels.db", environment=secrets
    ) as found:
        yield found


def post(running: Running, path: str, body: Any, headers: dict[str, str] = BEARER) -> httpx2.Response:
    return httpx2.post(f"{running.url}{path}", json=body, headers=headers, trust_env=False, timeout=PATIENCE)


def asked(running: Running, **fields: Any) -> dict[str, Any]:
    body = {"model": running.model, "messages": [{"role": "user", "content": QUESTION}], **fields}
    response = post(running, "/chat/completions", body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def labelled(running: Running, completion: dict[str, Any], correct: bool, **more: Any) -> httpx2.Response:
    return post(running, "/feedback", {"id": completion["calibsft"]["id"], "correct": correct, **more})


def health(running: Running) -> dict[str, Any]:
    url = running.url.removesuffix("/v1") + "/healthz"
    found: dict[str, Any] = httpx2.get(url, trust_env=False).json()
    return found


def test_a_label_counts_once_and_is_shown_everywhere(abstaining: Running) -> None:
    first, second = asked(abstaining), asked(abstaining)
    assert first["id"] == first["calibsft"]["id"] != second["id"]
    response = labelled(abstaining, first, False)
    assert response.status_code == 200
    found = response.json()
    counted = {"labels": 1, "events": 1, "alarm": False}
    assert found == found | {"object": "calibsft.feedback", "id": first["id"], **counted}
    assert found["policy"] == health(abstaining)["policy"]
    assert 0 < found["lower_bound"] < 0.1 and 1 < found["e_value"] < 20
    assert labelled(abstaining, second, True).json()["labels"] == 2
    watch = health(abstaining)["watch"]
    assert (watch["labels"], watch["events"], watch["alarm"]) == (2, 1, False)
    assert health(abstaining)["promise"].startswith("at most 10 % of the answers given are wrong")
    assert (abstaining.count("calibsft_labels"), abstaining.count("calibsft_label_events")) == (2, 1)
    assert abstaining.count("calibsft_alarm") == 0 and abstaining.count("calibsft_e_value") > 0


@pytest.mark.parametrize(
    "body, status, code",
    [
        ({"id": "chatcmpl-unknown", "correct": True}, 404, "unknown_id"),
        ({"id": "x"}, 400, "invalid_request"),
        ({"id": "x", "correct": 1}, 400, "invalid_request"),
        ({"id": "x", "correct": True, "wrong": False}, 400, "invalid_request"),
        ([1], 400, "invalid_request"),
    ],
)
def test_what_is_no_label_is_refused_and_nothing_is_counted(
    abstaining: Running, body: Any, status: int, code: str
) -> None:
    response = post(abstaining, "/feedback", body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert health(abstaining)["watch"]["labels"] == 0
    assert abstaining.count("calibsft_feedback_total", f'outcome="{code}"') == 1


def test_a_second_label_one_without_the_token_and_one_of_no_answer_are_refused(
    abstaining: Running, local: Scripted
) -> None:
    answered = asked(abstaining)
    assert labelled(abstaining, answered, True).status_code == 200
    again = labelled(abstaining, answered, False)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_labelled")
    body = {"id": asked(abstaining)["id"], "correct": False}
    assert post(abstaining, "/feedback", body, headers={}).status_code == 401
    local.answer = lambda asked: says(confident("0.10"))
    unanswered = labelled(abstaining, asked(abstaining), True)
    assert (unanswered.status_code, unanswered.json()["error"]["code"]) == (409, "not_answered")
    assert (health(abstaining)["watch"]["labels"], health(abstaining)["watch"]["events"]) == (1, 0)


def test_an_alarm_stops_the_answers_and_survives_a_restart(
    tmp_path: Path, abstaining: Running, local: Scripted
) -> None:
    answers = 0
    while not health(abstaining)["watch"]["alarm"]:
        completion = asked(abstaining)
        assert completion["choices"][0]["message"]["content"] == ANSWER
        assert labelled(abstaining, completion, False).status_code == 200
        answers += 1
        assert answers < 20
    stopped = asked(abstaining)
    assert stopped["choices"][0]["message"]["content"] == ABSTENTION
    assert (stopped["calibsft"]["decision"], stopped["calibsft"]["reason"]) == ("abstained", "alarm")
    assert abstaining.count("calibsft_alarm") == 1
    assert abstaining.said().count("ALARM at label") == 1
    abstaining.terminate()
    abstaining.ended()
    (rules,) = tmp_path.glob("policy-*.json")
    with gateway(rules, local.url, local_model="l", labels=tmp_path / "labels.db") as again:
        watch = health(again)["watch"]
        assert (watch["labels"], watch["events"], watch["alarm"]) == (answers, answers, True)
        assert asked(again)["calibsft"]["reason"] == "alarm" and "ALARM at label" in again.said()


def test_a_policy_that_defers_on_an_alarm_asks_the_strong_model_alone(
    tmp_path: Path, local: Scripted, strong: Scripted
) -> None:
    rules = policy_file(tmp_path, on_alarm="defer")
    with gateway(rules, local.url, strong.url, labels=tmp_path / "l.db") as running:
        missing = labelled(running, asked(running), False)
        assert (missing.status_code, missing.json()["error"]["code"]) == (422, "needs_strong_correct")
        for _ in range(20):
            labelled(running, asked(running), False, strong_correct=True)
        before = len(local.asked)
        found = asked(running)
        assert (found["calibsft"]["decision"], found["calibsft"]["reason"]) == ("deferred", "alarm")
        assert found["choices"][0]["message"]["content"] == "from the strong model"
        assert len(local.asked) == before
        # A deferred response has an id of its own too, and its label is no event.
        events = health(running)["watch"]["events"]
        assert labelled(running, found, False).json()["events"] == events


def test_an_alarm_reaches_other_gateways_with_the_same_file(
    tmp_path: Path, abstaining: Running, local: Scripted
) -> None:
    (rules,) = tmp_path.glob("policy-*.json")
    with gateway(rules, local.url, local_model="l", labels=tmp_path / "labels.db") as other:
        for _ in range(20):
            labelled(abstaining, asked(abstaining), False)
        # With its next response it sees what labels have said meanwhile.
        assert asked(other)["calibsft"]["reason"] == "confident"
        assert asked(other)["calibsft"]["reason"] == "alarm"
        assert health(other)["watch"] == health(abstaining)["watch"]
        assert other.count("calibsft_alarm") == 1 and other.said().count("ALARM at label") == 1


def test_a_file_that_another_process_holds_stops_nobody_else(
    tmp_path: Path, abstaining: Running, local: Scripted
) -> None:
    answering = Event()

    def answer(_: Asked) -> Sent:
        answering.set()
        return says(confident("0.95"))

    local.answer = answer
    with closing(sqlite3.connect(tmp_path / "labels.db", isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor() as pool, httpx2.Client(trust_env=False, timeout=PATIENCE) as client:
            waiting = pool.submit(asked, abstaining)
            answering.wait(PATIENCE)
            meanwhile = 0
            while not waiting.done():
                meanwhile += client.get(abstaining.url.removesuffix("/v1") + "/healthz").is_success
    assert meanwhile >= 10, "replies to others, while one response waits for the file"
    assert waiting.result()["calibsft"]["decision"] == "answered"
    assert abstaining.count("calibsft_unremembered_total") == 1


def test_without_a_file_no_labels_are_taken(tmp_path: Path, local: Scripted) -> None:
    with gateway(policy_file(tmp_path, otherwise="abstain"), local.url, local_model="l") as running:
        response = labelled(running, asked(running), True)
        assert response.status_code == 404 and "--labels" in response.json()["error"]["message"]
