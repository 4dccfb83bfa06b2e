"""The pool: order, limits by processor time, isolation of hanging and dying workers, economy, no remains."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool
from calibsft.verify.grader import Grader
from calibsft.verify.worker_host import Worker, WorkerHost

EASY = GradeItem("math", r"\sqrt{8}", r"2\sqrt{2}")
WRONG = GradeItem("math", r"\sqrt{8}", r"3\sqrt{2}")

# Only the grading processes know this grader: it is put there as the interpreter's sitecustomize.
MISCHIEF = """
import ctypes, os, signal, sys, time
import calibsft.verify
from calibsft.schema import Grade
from calibsft.verify.grader import Grader

def spin():
    while True:
        pass

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return Grade.CORRECT

def hoard():
    try:
        kept = [bytearray(2**20)]
        while True:
            kept.append(bytearray(len(kept[-1]) * 2))
    except MemoryError:
        return Grade.INCORRECT

def remember():
    remember.kept = getattr(remember, "kept", []) + [bytearray(60 * 2**20)]
    return Grade.INCORRECT

def grade(item):
    tricks = {
        "sleep": lambda: time.sleep(600),
        "spin": spin,
        "spin in C": lambda: sum(range(10**15)),
        "hoard": hoard,
        "remember": remember,
        "ask for too much": lambda: bytearray(2**40),
        "segfault": lambda: ctypes.string_at(0),
        "exit": lambda: os._exit(3),
        "raise": lambda: 1 / 0,
        "shout": lambda: os.write(2, b"noise") and print("noise") or Grade.CORRECT,
        "nap": lambda: time.sleep(0.25) or Grade.CORRECT,
        "burn": lambda: burn(0.15 * len(item.golds)),
    }
    if (trick := item.answer.split("#")[0]) in tricks:
        return tricks[trick]()
    return Grade.CORRECT if item.answer in item.golds else Grade.INCORRECT

calibsft.verify.GRADERS.clear()
calibsft.verify.GRADERS["mischief"] = Grader("mischief", 1, grade, isolated=True)
"""
FINE, BAD = GradeItem("mischief", "a", "a"), GradeItem("mischief", "a", "b")


def trick(name: str) -> GradeItem:
    return GradeItem("mischief", "a", name)


@pytest.fixture
def mischief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(MISCHIEF)
    monkeypatch.setitem(GRADERS, "mischief", Grader("mischief", 1, lambda item: Grade.ERROR, isolated=True))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.fixture
def short_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibsft.verify.worker_host.wall_clock_limit", lambda seconds: 1.5)


def pids(pool: VerifierPool) -> list[int]:
    return [worker.pid for worker in pool._workers]


def nursery_pid(pool: VerifierPool) -> int:
    assert pool._host is not None
    return pool._host.pid


def state(pid: int) -> str:
    """One letter, Z for a zombie; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def descendants(pid: int) -> set[int]:
    """Children and their children, zombies too."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= new
    return found


@pytest.fixture(autouse=True)
def nothing_remains() -> Iterator[None]:
    before = descendants(os.getpid())
    yield
    assert descendants(os.getpid()) <= before


# limits


def test_a_new_pool_grades_by_computer_algebra_in_order() -> None:
    items = [EASY, WRONG, GradeItem("exact", "a", "a"), GradeItem("math", "2x", "x+x")]
    with VerifierPool(workers=2) as pool:
        grades = pool.grade_all(items)
    assert grades == [Grade.CORRECT, Grade.INCORRECT, Grade.CORRECT, Grade.CORRECT]


@pytest.mark.usefixtures("mischief")
@pytest.mark.parametrize("how", ["spin", "spin in C"])
def test_processor_time_is_limited_inside_python_and_inside_c(how: str) -> None:
    with VerifierPool(workers=1, seconds=0.5) as pool:
        pool.grade_all([FINE])
        began = time.monotonic()
        assert pool.grade_all([FINE, trick(how), BAD]) == [Grade.CORRECT, Grade.TIMEOUT, Grade.INCORRECT]
        assert time.monotonic() - began < 8  # the wall-clock limit is 10


@pytest.mark.usefixtures("mischief")
def test_waiting_for_a_processor_is_not_charged() -> None:
    """A stopped worker stands for one that gets no processor: its clock must not run meanwhile."""
    with VerifierPool(workers=1, seconds=1.5) as pool:
        pool.grade_all([FINE])
        (worker,) = pids(pool)
        threading.Timer(0.3, os.kill, (worker, signal.SIGSTOP)).start()
        threading.Timer(3.0, os.kill, (worker, signal.SIGCONT)).start()
        began = time.monotonic()
        assert pool.grade_all([GradeItem("mischief", tuple("abcde"), "burn")]) == [Grade.CORRECT]
        assert time.monotonic() - began > 2.9
        assert pids(pool) == [worker]


@pytest.mark.usefixtures("mischief", "short_wall_clock")
def test_an_item_that_sleeps_uses_no_processor_time_and_is_caught_by_the_clock() -> None:
    with VerifierPool(workers=1, seconds=0.2) as pool:
        pool.grade_all([FINE])
        began = time.monotonic()
        assert pool.grade_all([FINE, trick("sleep"), BAD]) == [Grade.CORRECT, Grade.TIMEOUT, Grade.INCORRECT]
        assert 1.4 < time.monotonic() - began < 8


@pytest.mark.usefixtures("mischief")
def test_each_item_of_a_chunk_has_a_limit_of_its_own() -> None:
    items = [trick(f"burn#{n}") for n in range(12)]
    with VerifierPool(workers=1, seconds=0.8) as pool:
        pool.grade_all([FINE])
        before = pids(pool)
        assert set(pool.grade_all(items)) == {Grade.CORRECT}
        assert pids(pool) == before
        assert processor_seconds(before[0]) > 1.6


@pytest.mark.usefixtures("mischief", "short_wall_clock")
def test_the_clock_starts_anew_with_each_item_of_a_chunk() -> None:
    with VerifierPool(workers=1) as pool:
        assert set(pool.grade_all([trick(f"nap#{n}") for n in range(16)])) == {Grade.CORRECT}


@pytest.mark.usefixtures("mischief")
def test_all_aliases_of_an_item_share_its_limit() -> None:
    """The grader burns 0.15 s for each."""
    with VerifierPool(workers=1, seconds=0.8) as pool:
        items = [GradeItem("mischief", tuple("abcdefghij"[:n]), "burn") for n in (2, 10)]
        assert pool.grade_all(items) == [Grade.CORRECT, Grade.TIMEOUT]


@pytest.mark.usefixtures("mischief")
@pytest.mark.parametrize("how", ["segfault", "exit", "raise", "ask for too much"])
def test_other_deaths_and_exceptions_are_errors_of_their_item_only(how: str) -> None:
    with VerifierPool(workers=1) as pool:
        assert pool.grade_all([FINE, trick(how), BAD]) == [Grade.CORRECT, Grade.ERROR, Grade.INCORRECT]


@pytest.mark.usefixtures("mischief")
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited, and visible, on Linux")
def test_running_out_of_memory_is_an_error_even_where_the_grader_takes_it_for_inequality() -> None:
    with VerifierPool(workers=1, seconds=10, memory_mb=400) as pool:
        assert pool.grade_all([FINE, trick("hoard"), BAD]) == [Grade.CORRECT, Grade.ERROR, Grade.INCORRECT]


@pytest.mark.usefixtures("mischief")
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited, and visible, on Linux")
def test_a_worker_short_of_memory_is_replaced_before_an_item_suffers_from_it() -> None:
    hogs = [trick(f"remember#{n}") for n in range(20)]
    with VerifierPool(workers=1, memory_mb=400) as pool:
        pool.grade_all([FINE])
        before = pids(pool)
        assert set(pool.grade_all(hogs)) == {Grade.INCORRECT}
        assert pids(pool) != before


def test_a_worker_that_has_no_room_to_start_is_an_error_not_a_verdict() -> None:
    with VerifierPool(workers=1, memory_mb=32) as pool, pytest.raises(InputError, match="raise memory_mb to"):
        pool.grade_all([EASY])


@pytest.mark.parametrize("options", [{"workers": 0}, {"seconds": 0.0}, {"memory_mb": 0}])
def test_senseless_limits_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError):
        VerifierPool(**options)


# replacement


@pytest.mark.usefixtures("mischief")
def test_two_hundred_hostile_items_in_a_row_cost_the_others_nothing() -> None:
    hostile = [trick(f"{how}#{n}") for n in range(50) for how in ("segfault", "exit", "raise", "spin")]
    honest = [GradeItem("mischief", "a", f"wrong {n}") for n in range(200)]
    mixed = [item for pair in zip(hostile, honest, strict=True) for item in pair]
    with VerifierPool(workers=2, seconds=0.05) as pool:
        grades = pool.grade_all([*mixed, FINE])
    assert grades[1:-1:2] == [Grade.INCORRECT] * 200
    assert grades[:-1:2] == [Grade.ERROR, Grade.ERROR, Grade.ERROR, Grade.TIMEOUT] * 50
    assert grades[-1] is Grade.CORRECT


@pytest.mark.usefixtures("mischief")
def test_a_new_worker_takes_milliseconds() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([FINE])
        began = time.monotonic()
        pool.grade_all([trick(f"exit#{n}") for n in range(20)])
        assert time.monotonic() - began < 2


@pytest.mark.usefixtures("mischief")
def test_a_worker_killed_from_outside_costs_its_item_only() -> None:
    with VerifierPool(workers=1, seconds=30) as pool:
        pool.grade_all([FINE])
        (victim,) = pids(pool)
        threading.Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()
        assert pool.grade_all([trick("spin"), BAD, FINE]) == [Grade.ERROR, Grade.INCORRECT, Grade.CORRECT]
        assert pids(pool) != [victim]


def test_a_worker_that_died_while_idle_costs_nothing() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([EASY])
        (victim,) = pids(pool)
        os.kill(victim, signal.SIGKILL)
        assert wait_until(lambda: state(victim) == "Z", 5)
        assert pool.grade_all([WRONG]) == [Grade.INCORRECT]


def test_a_worker_that_says_it_is_unhealthy_is_replaced_after_its_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receive = Worker.receive

    def tired(worker: Worker) -> tuple[Grade, bool] | None:
        reply = receive(worker)
        return reply and (reply[0], False)

    monkeypatch.setattr(Worker, "receive", tired)
    with VerifierPool(workers=1) as pool:
        assert pool.grade_all([EASY, WRONG]) == [Grade.CORRECT, Grade.INCORRECT]
        assert pids(pool) == []


@pytest.mark.usefixtures("mischief")
def test_a_nursery_killed_while_idle_is_replaced_with_the_first_worker_needed() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([FINE])
        victim = nursery_pid(pool)
        os.kill(victim, signal.SIGKILL)
        assert wait_until(lambda: state(victim) == "Z", 5)
        assert pool.grade_all([trick("exit"), FINE]) == [Grade.ERROR, Grade.CORRECT]
        assert nursery_pid(pool) != victim


@pytest.mark.usefixtures("mischief")
def test_a_nursery_killed_at_work_costs_no_item() -> None:
    items = [*(trick(f"burn#{n}") for n in range(10)), trick("exit"), FINE, BAD]
    with VerifierPool(workers=2) as pool:
        pool.grade_all([FINE])
        victim = nursery_pid(pool)
        threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
        assert pool.grade_all(items) == [
            *[Grade.CORRECT] * 10,
            Grade.ERROR,
            Grade.CORRECT,
            Grade.INCORRECT,
        ]


@pytest.mark.usefixtures("mischief")
def test_processes_that_are_ended_again_and_again_are_one_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait_until_ready = WorkerHost.wait_until_ready

    def sabotage(host: WorkerHost) -> None:
        wait_until_ready(host)
        os.kill(host.pid, signal.SIGKILL)
        assert wait_until(lambda: state(host.pid) == "Z", 5)

    monkeypatch.setattr(WorkerHost, "wait_until_ready", sabotage)
    with VerifierPool(workers=1) as pool, pytest.raises(InputError, match=r"ended from outside \d+ times"):
        pool.grade_all([FINE])


def test_a_worker_host_that_cannot_start_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(7)")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with VerifierPool(workers=1) as pool, pytest.raises(InputError, match="ended with code 7 before"):
        pool.grade_all([EASY])


# economy


def test_workers_survive_between_calls_and_end_with_the_pool() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([EASY])
        before = [nursery_pid(pool), *pids(pool)]
        pool.grade_all([WRONG])
        assert [nursery_pid(pool), *pids(pool)] == before
    assert [state(pid) for pid in before] == ["", ""]
    assert pool.grade_all([WRONG]) == [Grade.INCORRECT]
    pool.close()


@pytest.mark.usefixtures("mischief")
def test_closing_leaves_no_process_even_when_workers_sleep() -> None:
    pool = VerifierPool(workers=2)
    pool.grade_all([FINE, BAD])
    processes = {nursery_pid(pool), *pids(pool)}
    assert len(processes) == 3
    assert processes <= descendants(os.getpid())
    for worker in pool._workers:
        worker.send([trick("sleep")])
    pool.close()
    assert not processes & descendants(os.getpid())
    assert not any(map(state, processes))


def test_equal_items_are_graded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[GradeItem] = []
    send = Worker.send
    monkeypatch.setattr(Worker, "send", lambda worker, items: sent.extend(items) or send(worker, items))
    with VerifierPool(workers=2) as pool:
        grades = pool.grade_all([EASY, WRONG, EASY, EASY, WRONG])
    assert sorted(sent, key=str) == sorted([EASY, WRONG], key=str)
    assert grades == [Grade.CORRECT, Grade.INCORRECT, Grade.CORRECT, Grade.CORRECT, Grade.INCORRECT]


@pytest.mark.usefixtures("mischief")
@pytest.mark.parametrize("workers", [1, 3])
def test_results_stand_in_the_order_of_the_items_whatever_the_golds(workers: int) -> None:
    items = [GradeItem("mischief", str(n % 7), str(n % 5)) for n in range(100)]
    with VerifierPool(workers=workers) as pool:
        grades = pool.grade_all(items)
    assert [grade is Grade.CORRECT for grade in grades] == [n % 7 == n % 5 for n in range(100)]


def test_cheap_items_start_no_process() -> None:
    items = [
        GradeItem("exact", "a", "b"),
        GradeItem("math", "5", "6"),
        GradeItem("math", ("4", r"\sqrt{5}"), r"$\sqrt{5}$"),
        GradeItem("math", "5", "9" * 10**6),
    ]
    with VerifierPool() as pool:
        grades = pool.grade_all(items)
        assert pool._host is None
    assert grades == [Grade.INCORRECT, Grade.INCORRECT, Grade.CORRECT, Grade.TOO_LARGE]


@pytest.mark.usefixtures("mischief")
def test_no_more_workers_start_than_there_are_items() -> None:
    with VerifierPool(workers=8) as pool:
        pool.grade_all([FINE, BAD])
        assert len(pids(pool)) == 2


def test_progress_counts_every_item_up_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    with VerifierPool(workers=1) as pool:
        pool.grade_all(
            [EASY, WRONG, EASY, GradeItem("exact", "a", "a")], lambda done, total: seen.append((done, total))
        )
    assert seen == sorted(seen)
    assert seen[-1] == (4, 4)


# interruption, threads, forks, parents of all kinds


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
    assert sorted(results) == [1, 2, 3, 4]
    for n, grades in results.items():
        assert [k for k, grade in enumerate(grades, 1) if grade is Grade.CORRECT] == [n]


@pytest.mark.usefixtures("mischief")
def test_a_forked_child_has_processes_of_its_own_and_leaves_its_parents_alone() -> None:
    with VerifierPool(workers=1) as pool:
        pool.grade_all([FINE])
        before = [nursery_pid(pool), *pids(pool)]
        child = os.fork()
        if not child:
            grades = pool.grade_all([FINE, BAD, trick("exit")])
            own = nursery_pid(pool) not in before
            pool.close()
            os._exit(0 if own and grades == [Grade.CORRECT, Grade.INCORRECT, Grade.ERROR] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert pool.grade_all([BAD]) == [Grade.INCORRECT]
        assert [nursery_pid(pool), *pids(pool)] == before


@pytest.mark.usefixtures("mischief")
def test_closing_is_complete_while_a_forked_child_lives() -> None:
    """The child, a data loader say, has copies of the parent's sockets, which would keep them open."""
    pool = VerifierPool(workers=2)
    pool.grade_all([FINE, BAD])
    processes = [nursery_pid(pool), *pids(pool)]
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    began = time.monotonic()
    pool.close()
    took, left = time.monotonic() - began, [state(pid) for pid in processes]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert left == ["", "", ""]
    assert took < 5


def test_nursery_and_workers_ignore_interrupts_and_stay_single_threaded() -> None:
    # Under some runners SIGINT is already ignored, and ignoring is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with VerifierPool(workers=1) as pool:
            pool.grade_all([EASY])
            processes = [nursery_pid(pool), *pids(pool)]
            statuses = [Path(f"/proc/{pid}/status").read_text() for pid in processes]
    finally:
        signal.signal(signal.SIGINT, before)
    for status in statuses:
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert int(fields["SigIgn"], 16) & 1 << signal.SIGINT - 1
        assert fields["Threads"] == "1"  # only then is forking safe


@pytest.mark.usefixtures("mischief")
def test_an_interrupt_from_the_keyboard_ends_everything_at_once(tmp_path: Path) -> None:
    code = """
import signal
from calibsft.verify import GradeItem, VerifierPool
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = VerifierPool(workers=2)
pool.grade_all([GradeItem("mischief", "a", answer) for answer in "bc"])
print(pool._host.pid, *(worker.pid for worker in pool._workers), flush=True)
pool.grade_all([GradeItem("mischief", "a", answer) for answer in ("sleep", "sleep#2")])
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    processes = list(map(int, parent.stdout.readline().split()))
    time.sleep(0.3)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: all processes get it
    _, complaint = parent.communicate(timeout=8)
    assert complaint.count("Traceback") == 1
    assert complaint.endswith("KeyboardInterrupt\n")
    assert [state(pid) for pid in processes] == ["", "", ""]


@pytest.mark.usefixtures("mischief")
def test_signals_that_the_parent_ignores_still_end_an_item() -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGPROF, signal.SIGCHLD)}
    try:
        with VerifierPool(workers=1, seconds=0.2) as pool:
            grades = pool.grade_all([trick("spin"), trick("exit"), FINE])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert grades == [Grade.TIMEOUT, Grade.ERROR, Grade.CORRECT]


@pytest.mark.usefixtures("mischief")
def test_what_a_grader_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with VerifierPool(workers=1) as pool:
        assert pool.grade_all([trick("shout")]) == [Grade.CORRECT]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("mischief")
@pytest.mark.parametrize("last", ["a", "spin", "sleep"])
def test_nursery_and_workers_end_with_a_killed_parent(last: str, tmp_path: Path) -> None:
    code = f"""
import os, signal, threading, time
from calibsft.verify import GradeItem, VerifierPool
pool = VerifierPool(workers=1, seconds=30)
pool.grade_all([GradeItem("mischief", "a", "b")])
print(pool._host.pid, pool._workers[0].pid, flush=True)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
pool.grade_all([GradeItem("mischief", "a", "{last}")])
time.sleep(60)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    processes = list(map(int, parent.stdout.split()))
    assert len(processes) == 2
    assert wait_until(lambda: all(state(pid) in ("", "Z") for pid in processes), 5)


def test_a_worker_whose_host_and_parent_are_gone_ends_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left to end it: the kernel does, by the alarm on processor time."""
    (tmp_path / "sitecustomize.py").write_text(MISCHIEF)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    host = WorkerHost(seconds=0.5, memory_mb=2048)
    host.wait_until_ready()
    worker = Worker(host, 0.5)
    worker.send([trick("spin")])
    os.kill(host.pid, signal.SIGKILL)
    host.close()
    assert wait_until(lambda: state(worker.pid) in ("", "Z"), 8)
    worker.pipe.close()


def test_a_script_without_a_main_guard_can_grade(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from calibsft.verify import grade\nprint(grade('math', 'x+y', 'y+x'))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("correct\n", "")


def test_code_from_standard_input_can_grade_as_in_a_notebook() -> None:
    code = "from calibsft.verify import grade\nprint(grade('math', 'x+y', 'y+x'))\n"
    done = subprocess.run([sys.executable], input=code, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("correct\n", "")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind to one processor")
def test_one_processor_is_enough() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with VerifierPool() as pool:
            assert pool.grade_all([EASY, WRONG]) == [Grade.CORRECT, Grade.INCORRECT]
            assert len(pids(pool)) == 1
    finally:
        os.sched_setaffinity(0, allowed)
