"""The pool: order, limits, isolation of hanging and dying workers, economy."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify import GradeItem, VerifierPool
from calibsft.verify.worker import Reply, Worker

ENDLESS = GradeItem("math", "5", "(x+y+z+1)^{200}")
EASY = GradeItem("math", r"\sqrt{8}", r"2\sqrt{2}")
WRONG = GradeItem("math", r"\sqrt{8}", r"3\sqrt{2}")


def pids(pool: VerifierPool) -> list[int]:
    return [worker.process.pid for worker in pool._workers]


def alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


def test_a_hanging_item_times_out_alone_and_order_is_kept() -> None:
    with VerifierPool(workers=2, seconds=2.5) as pool:
        grades = pool.grade_all(
            [EASY, ENDLESS, WRONG, GradeItem("exact", "a", "a"), GradeItem("math", "2x", "x+x")]
        )
    assert grades == [Grade.CORRECT, Grade.TIMEOUT, Grade.INCORRECT, Grade.CORRECT, Grade.CORRECT]


def test_neither_start_up_nor_queueing_is_charged() -> None:
    items = [GradeItem("math", f"{n}x+x", f"x+{n}x") for n in range(2, 42)]
    with VerifierPool(workers=1, seconds=0.6) as pool:
        begin = time.monotonic()
        grades = pool.grade_all(items)
        assert time.monotonic() - begin > 0.6
    assert set(grades) == {Grade.CORRECT}


def test_a_killed_worker_costs_its_item_only() -> None:
    with VerifierPool(workers=1, seconds=30) as pool:
        pool.grade_all([EASY])
        (victim,) = pids(pool)
        threading.Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()
        assert pool.grade_all([ENDLESS, WRONG, EASY]) == [Grade.ERROR, Grade.INCORRECT, Grade.CORRECT]
        assert pids(pool) != [victim]


def test_a_worker_that_died_while_idle_costs_nothing() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([EASY])
        os.kill(pids(pool)[0], signal.SIGKILL)
        pool._workers[0].process.wait()
        assert pool.grade_all([WRONG]) == [Grade.INCORRECT]


def test_workers_survive_between_calls() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([EASY])
        before = pids(pool)
        pool.grade_all([WRONG])
        assert pids(pool) == before
    assert not alive(before[0])


def test_a_worker_short_of_memory_is_replaced_after_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Worker.receive

    def tired(worker: Worker) -> Reply | None:
        reply = receive(worker)
        return reply and Reply(reply.grade, healthy=reply.grade is None)

    monkeypatch.setattr(Worker, "receive", tired)
    with VerifierPool(workers=1) as pool:
        assert pool.grade_all([EASY, WRONG]) == [Grade.CORRECT, Grade.INCORRECT]
        assert pids(pool) == []


def test_equal_items_are_graded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[GradeItem] = []
    send = Worker.send
    monkeypatch.setattr(Worker, "send", lambda worker, item: sent.append(item) or send(worker, item))
    with VerifierPool(workers=2) as pool:
        grades = pool.grade_all([EASY, WRONG, EASY, EASY, WRONG])
    assert sorted(sent, key=str) == sorted([EASY, WRONG], key=str)
    assert grades == [Grade.CORRECT, Grade.INCORRECT, Grade.CORRECT, Grade.CORRECT, Grade.INCORRECT]


def test_cheap_items_start_no_process() -> None:
    items = [
        GradeItem("exact", "a", "b"),
        GradeItem("math", "5", "6"),
        GradeItem("math", ("4", r"\sqrt{5}"), r"$\sqrt{5}$"),
        GradeItem("math", "5", "9" * 10**6),
    ]
    with VerifierPool() as pool:
        grades = pool.grade_all(items)
        assert pids(pool) == []
    assert grades == [Grade.INCORRECT, Grade.INCORRECT, Grade.CORRECT, Grade.TOO_LARGE]


def test_progress_counts_every_item_up_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    with VerifierPool(workers=1) as pool:
        pool.grade_all(
            [EASY, WRONG, EASY, GradeItem("exact", "a", "a")], lambda done, total: seen.append((done, total))
        )
    assert seen == sorted(seen)
    assert seen[-1] == (4, 4)


def test_an_interrupted_call_leaves_no_stale_replies() -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with VerifierPool(workers=2) as pool:
        with pytest.raises(KeyboardInterrupt):
            pool.grade_all([EASY, WRONG], interrupt)
        assert pids(pool) == []
        assert pool.grade_all([WRONG, EASY]) == [Grade.INCORRECT, Grade.CORRECT]


def test_threads_take_turns() -> None:
    results: dict[int, list[Grade]] = {}
    with VerifierPool(workers=1) as pool:

        def work(n: int) -> None:
            results[n] = pool.grade_all([GradeItem("math", f"{n}x", f"x+{k}x") for k in range(5)])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n, grades in results.items():
        assert [k for k, grade in enumerate(grades, 1) if grade is Grade.CORRECT] == [n]


def test_workers_ignore_interrupts() -> None:
    # Under some runners SIGINT is already ignored, and ignoring is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with VerifierPool(workers=1) as pool:
            pool.grade_all([EASY])
            status = Path(f"/proc/{pids(pool)[0]}/status").read_text()
    finally:
        signal.signal(signal.SIGINT, before)
    (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")]
    assert int(ignored, 16) & 1 << signal.SIGINT - 1


@pytest.mark.parametrize("item", ["EASY", "ENDLESS"])
def test_workers_end_with_a_killed_parent(item: str) -> None:
    """`item` is what the worker last got: idle, it sees the pipe close; busy, its own alarm ends it."""
    code = f"""
import os, signal, threading, time
from calibsft.verify import GradeItem, VerifierPool
EASY, ENDLESS = GradeItem("math", "x+y", "y+x"), GradeItem("math", "5", "(x+y+z+1)^{{200}}")
pool = VerifierPool(workers=1, seconds=1.0)
pool.grade_all([EASY])
print(pool._workers[0].process.pid, flush=True)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
pool.grade_all([{item}])
time.sleep(60)
"""
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert parent.returncode == -signal.SIGKILL
    assert wait_until_gone(int(parent.stdout), seconds=10)


def test_a_script_without_a_main_guard_can_grade(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from calibsft.verify import grade\nprint(grade('math', 'x+y', 'y+x'))\n")
    assert subprocess.run([sys.executable, script], capture_output=True, text=True).stdout == "correct\n"


def test_a_worker_that_cannot_start_is_an_error_not_a_verdict(capfd: pytest.CaptureFixture[str]) -> None:
    with VerifierPool(workers=1, memory_mb=32) as pool, pytest.raises(InputError, match="raise memory_mb"):
        pool.grade_all([EASY])


@pytest.mark.parametrize("options", [{"workers": 0}, {"seconds": 0.0}, {"memory_mb": 0}])
def test_senseless_limits_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError):
        VerifierPool(**options)
