"""Drift: silent as often as promised while nothing changes, loud when it does, and once."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from calibsft.decisions.policy import Policy
from calibsft.gateway import drift, gateway
from calibsft.gateway.drift import WINDOW, Drift
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.meters import Meters
from calibsft.gateway.requests import read_request
from calibsft.gateway.traces import Trace
from calibsft.gateway.upstream import Upstream
from gateway_process import policy
from scripted_server import Scripted, confident, says, scripted_server

ASKED = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
SHORT = 40


def calibrated_on(reached: Iterable[int], **fields: Any) -> Policy:
    counts = Counter(int(one) for one in reached)
    never = counts.pop(-1, 0)
    stated = {reached / 100: count for reached, count in counts.items()}
    return policy(never_confident=never, confidences=stated, **fields)


def windows(found: Drift, reached: np.ndarray) -> list[bool]:
    """Whether each full window has drifted."""
    return [found.drifted for one in reached.tolist() if found.add(one)]


def alarm_rate(monkeypatch: pytest.MonkeyPatch, allowed: float, repeats: int) -> float:
    """How often a window of the same population differs, when it may do so in `allowed` of all cases."""
    monkeypatch.setattr(drift, "FALSE_ALARMS", allowed)
    random = np.random.default_rng(0)
    alarms = 0
    for _ in range(repeats):
        found = Drift.of(calibrated_on(random.integers(-1, 101, 500)))
        alarms += windows(found, random.integers(-1, 101, WINDOW))[0]
    return alarms / repeats


def test_the_limit_is_exceeded_by_chance_about_as_often_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # At one in a thousand nothing could be counted in a short test; the formula is the same at one in five.
    rate = alarm_rate(monkeypatch, 0.2, 1000)
    # Ties make it somewhat rarer than for continuous values, never more frequent; four standard errors are 0.05.
    assert 0.13 < rate < 0.25


def test_the_same_distribution_stays_silent() -> None:
    random = np.random.default_rng(1)
    shares = random.dirichlet(np.ones(102))
    found = Drift.of(calibrated_on(random.choice(102, 2000, p=shares) - 1))
    assert sum(windows(found, random.choice(102, 200 * WINDOW, p=shares) - 1)) <= 2


@pytest.mark.parametrize("moved", [np.full(WINDOW, 100), np.full(WINDOW, -1), np.full(WINDOW, 0)])
def test_another_distribution_is_noticed_in_the_first_window(moved: np.ndarray) -> None:
    found = Drift.of(calibrated_on(np.arange(1000) % 101))
    assert windows(found, moved) == [True]
    assert found.distance is not None and found.distance > 0.9


def test_a_shift_of_a_fifth_is_noticed() -> None:
    random = np.random.default_rng(2)
    found = Drift.of(calibrated_on(random.integers(0, 80, 2000)))
    assert windows(found, random.integers(20, 100, 10 * WINDOW)) == [True] * 10


def test_more_malformed_responses_are_a_shift_too() -> None:
    found = Drift.of(calibrated_on([90] * 900 + [-1] * 100))
    assert windows(found, np.array([90] * 250 + [-1] * 250)) == [True]
    assert found.distance == pytest.approx(0.4)


def test_the_distance_is_the_largest_between_the_cumulative_shares() -> None:
    found = Drift.of(calibrated_on([10] * 50 + [60] * 50))
    windows(found, np.array([10] * 100 + [60] * 400))
    assert found.distance == pytest.approx(0.3)


def test_windows_are_judged_each_for_itself_and_the_first_only_when_full() -> None:
    found = Drift.of(calibrated_on([50] * 1000))
    assert [found.add(0) for _ in range(WINDOW)] == [False] * (WINDOW - 1) + [True]
    assert found.drifted
    assert not any(found.add(50) for _ in range(WINDOW - 1))
    assert found.drifted, "half a window changes nothing"
    assert found.add(50) and not found.drifted and found.distance == 0


def test_less_calibration_data_allow_for_more_distance() -> None:
    limits = [Drift.of(calibrated_on([50] * size)).limit or 0 for size in (50, 500, 5000)]
    assert limits == sorted(limits, reverse=True)
    # Twice the confidence in a limit as in a table of the two-sample test: 1.949 · sqrt(1/n + 1/m) at 0.001.
    assert limits[1] == pytest.approx(1.9495 * (2 / 500) ** 0.5, rel=1e-3)


def test_a_policy_without_counts_never_drifts() -> None:
    found = Drift.of(policy())
    assert not any(windows(found, np.arange(3 * WINDOW) % 101))
    assert (found.limit, found.distance, found.drifted) == (None, None, False)


@pytest.fixture
def local() -> Iterator[Scripted]:
    with scripted_server() as found:
        yield found


async def live(rules: Policy, local: Scripted, texts: Iterable[str]) -> tuple[bytes, list[bytes]]:
    """Whole windows of responses, one text each: the metrics in the end and after every window."""
    meters = Meters()
    upstream = Upstream("local", local.url, "m", "none", 10, 0)
    live_gateway = Gateway(rules, upstream, None, meters, 8, 8)
    pages = []
    try:
        for text in texts:
            local.reset(lambda asked, text=text: says(text))
            for _ in range(SHORT):
                reply = await live_gateway.reply(read_request(ASKED, "m"), "id", Trace({}))
                reply.held.close()
            pages.append(meters.page())
    finally:
        await live_gateway.close()
    return pages[-1], pages


def gauges(page: bytes) -> tuple[float, float]:
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }
    return found["calibsft_drifted"], found["calibsft_drift_distance"]


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (drift, gateway):
        monkeypatch.setattr(module, "WINDOW", SHORT)


@pytest.mark.usefixtures("short_windows")
def test_a_drift_is_told_once_when_it_begins_and_once_when_it_ends(
    local: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    rules = calibrated_on([95] * 200, otherwise="abstain")
    same, other, malformed = confident("0.95"), confident("0.05"), "nothing"
    with caplog.at_level(logging.INFO, "calibsft.gateway"):
        _, pages = asyncio.run(live(rules, local, [same, malformed, other, same, same]))
    assert [gauges(page) for page in pages] == [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0)]
    begun, ended = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"distance 1.00, limit 0.34, over the last {SHORT} responses" in begun and "calibrate" in begun
    assert "again" in ended


@pytest.mark.usefixtures("short_windows")
def test_without_counts_there_is_no_word_of_drift(local: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "calibsft.gateway"):
        page, _ = asyncio.run(live(policy(otherwise="abstain"), local, [confident("0.95"), "nothing"]))
    assert gauges(page) == (0, 0)
    assert "calibration" not in caplog.text
