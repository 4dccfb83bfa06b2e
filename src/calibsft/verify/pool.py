"""Grade many answers in worker processes with hard limits of time and memory.

The time limit counts the worker's processor time, so a busy machine or a long queue cannot turn a right answer into a
wrong one. An item that exceeds it is a `TIMEOUT`. An item whose worker dies otherwise is an `ERROR`. Other items are
not affected: the next worker starts within milliseconds. Does not grade: graders do, here for the cheap items, in
`worker` for the rest.
"""

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Self

from calibsft.errors import InputError, unknown_name
from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader, OnProgress
from calibsft.verify.worker_host import HostLostError, Worker, WorkerHost

_CHUNK = 8
_MAX_FAILURES = 10
# SIGPROF ends an item that computes too long, SIGALRM one that sleeps and was not ended from here.
_OUT_OF_TIME = (-signal.SIGPROF, -signal.SIGALRM)


class VerifierPool:
    """Worker processes that grade; use as a context manager, or call `close`.

    Processes start with the first item that needs one, which takes about a second, and are kept between calls of
    `grade_all`. Calls from several threads take turns. A forked child starts processes of its own.

    Parameters
    ----------
    workers
        The most workers; None for one per available processor.
    seconds
        Processor time per item, for all its aliases together. Its wall-clock limit is ten times as long, at least ten
        seconds; it ends items that sleep.
    memory_mb
        Address space of one worker in MiB.
    """

    _workers: list[Worker]
    _host: WorkerHost | None

    def __init__(self, workers: int | None = None, seconds: float = 0.8, memory_mb: int = 2048) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"a verifier pool needs at least one worker, not {workers}")
        if seconds <= 0 or memory_mb <= 0:
            raise InputError(
                f"the limits of a verifier pool must be positive: seconds {seconds}, memory_mb {memory_mb}"
            )
        self._size = workers or available_processors()
        self._seconds, self._memory_mb = seconds, memory_mb
        self._forget_processes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def grade_all(self, items: Sequence[GradeItem], on_progress: OnProgress | None = None) -> list[Grade]:
        """Grade `items`, each distinct one once, and return the grades in the order of `items`.

        Parameters
        ----------
        items
            What to grade. An unknown grader raises `InputError` before anything is graded.
        on_progress
            Called with (items settled so far, all items) whenever that number grows.
        """
        if os.getpid() != self._owner:
            self._forget_processes()
        with self._turn:
            run = _Run(items, on_progress)
            try:
                for _ in run.grade_easy_items():
                    self._open()  # the host imports its libraries meanwhile
                while run.waiting or any(worker.items for worker in self._workers):
                    self._advance(run)
            except BaseException:
                self.close()  # otherwise the next call would read the replies of this one
                raise
        return [run.grades[item] for item in items]

    def close(self) -> None:
        """End all processes. A later call of `grade_all` starts new ones."""
        while self._workers:
            self._workers.pop().pipe.close()
        if host := self._host:
            self._host = None
            host.close()

    def _forget_processes(self) -> None:
        self._owner, self._turn = os.getpid(), threading.Lock()
        self._workers, self._host = [], None

    def _open(self) -> WorkerHost:
        self._host = self._host or WorkerHost(self._seconds, self._memory_mb)
        return self._host

    def _advance(self, run: "_Run") -> None:
        try:
            self._keep_workers_busy(run)
            self._collect(run)
        except HostLostError:
            for worker in self._workers:
                run.put_back(worker.items)
            self.close()
            run.count_failure()

    def _keep_workers_busy(self, run: "_Run") -> None:
        """Send items to idle workers, and spawn workers while items wait."""
        for worker in [worker for worker in self._workers if not worker.items]:
            self._send_items(worker, run)
        while run.waiting and len(self._workers) < self._size:
            host = self._open()
            host.wait_until_ready()
            self._workers.append(Worker(host, self._seconds))
            self._send_items(self._workers[-1], run)

    def _send_items(self, worker: Worker, run: "_Run") -> None:
        chunk = run.take(self._size)
        if chunk and not worker.send(chunk):
            run.put_back(chunk)
            self._end(worker)
            run.count_failure()

    def _collect(self, run: "_Run") -> None:
        """Wait for the next reply or deadline, and settle the items that it decides."""
        busy = [worker for worker in self._workers if worker.items]
        nearest = min((worker.deadline for worker in busy), default=0.0)
        ready = wait([worker.pipe for worker in busy], max(0.0, nearest - time.monotonic()))
        for worker in busy:
            if worker.pipe in ready:
                self._receive(worker, run)
            elif worker.deadline <= time.monotonic():
                self._fail(worker, run, overran=True)

    def _receive(self, worker: Worker, run: "_Run") -> None:
        reply = worker.receive()
        if reply is None:
            self._fail(worker, run, overran=False)
            return
        grade, healthy = reply
        run.settle(worker.items.popleft(), grade)
        if not healthy:
            self._end(worker)
            run.put_back(worker.items)

    def _fail(self, worker: Worker, run: "_Run", overran: bool) -> None:
        """Settle the item of a worker that overran or died; the items behind it wait for another worker."""
        late = self._end(worker) in _OUT_OF_TIME or overran
        run.settle(worker.items.popleft(), Grade.TIMEOUT if late else Grade.ERROR)
        run.put_back(worker.items)

    def _end(self, worker: Worker) -> int:
        exit_code = self._open().end(worker)
        self._workers.remove(worker)
        return exit_code


class _Run:
    """One call of `grade_all`: what is settled, and what waits for a worker."""

    def __init__(self, items: Sequence[GradeItem], on_progress: OnProgress | None) -> None:
        self.grades: dict[GradeItem, Grade] = {}
        self.waiting: deque[GradeItem] = deque()
        self._copies = Counter(items)
        self._settled, self._total, self._on_progress = 0, len(items), on_progress
        self._graders = {kind: find_grader(kind) for kind in {item.kind for item in self._copies}}
        self._failures = 0

    def grade_easy_items(self) -> Iterator[GradeItem]:
        """Grade the items that need no worker, and yield the others, which wait for one."""
        for item in self._copies:
            grade = self._graders[item.kind].grade_here(item)
            if grade is None:
                self.waiting.append(item)
                yield item
            else:
                self.settle(item, grade)

    def take(self, workers: int) -> list[GradeItem]:
        """The next few items; fewer towards the end, so that all workers finish together."""
        count = min(_CHUNK, -(-len(self.waiting) // (2 * workers)))
        return [self.waiting.popleft() for _ in range(count)]

    def put_back(self, items: Iterable[GradeItem]) -> None:
        self.waiting.extendleft(reversed(list(items)))

    def settle(self, item: GradeItem, grade: Grade) -> None:
        self.grades[item] = grade
        self._settled += self._copies[item]
        if self._on_progress:
            self._on_progress(self._settled, self._total)

    def count_failure(self) -> None:
        """Count processes that ended through no fault of an item; give up if that happens too often."""
        self._failures += 1
        if self._failures > _MAX_FAILURES:
            raise InputError(
                f"the grading processes were ended from outside {self._failures} times;"
                " check whether the machine has too little memory or limits the number of processes"
            )


def find_grader(kind: str) -> Grader:
    """The grader called `kind`; an unknown name raises `InputError`."""
    from calibsft.verify import GRADERS  # the package imports this module before it can list its graders

    return GRADERS[kind] if kind in GRADERS else unknown_name("grader", kind, list(GRADERS))


def available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
