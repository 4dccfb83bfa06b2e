"""Grade many answers under hard limits of time and memory, in replaceable worker processes.

A worker that overruns is killed and costs its item a `TIMEOUT`; one that dies costs its item an `ERROR`;
every other item is unaffected. An item's clock starts when a worker that has finished its imports takes it:
queueing and start-up are free. Does not grade: graders do, here for the cheap ones, in `worker` for the rest.
"""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from types import TracebackType
from typing import Self

from calibsft.errors import InputError, unknown_name
from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader
from calibsft.verify.worker import Worker


class VerifierPool:
    """Worker processes that grade; use as a context manager, or call `close`.

    Workers start when the first item needs one and survive between calls of `grade_all`. Calls from
    several threads take turns; a forked child starts workers of its own.

    Parameters
    ----------
    workers
        At most this many processes; None for one per available processor.
    seconds
        Wall-clock limit per item, all aliases together.
    memory_mb
        Address space of one worker in MiB.
    """

    def __init__(self, workers: int | None = None, seconds: float = 5.0, memory_mb: int = 2048) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"a verifier pool needs at least one worker, not {workers}")
        if seconds <= 0 or memory_mb <= 0:
            raise InputError(
                f"the limits of a verifier pool must be positive: seconds {seconds}, memory_mb {memory_mb}"
            )
        self._size = workers or available_processors()
        self._seconds, self._memory_mb = seconds, memory_mb
        self._disown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def grade_all(
        self, items: Sequence[GradeItem], on_progress: Callable[[int, int], None] | None = None
    ) -> list[Grade]:
        """Grade `items`, each distinct one once, and return the grades in the order of `items`.

        Parameters
        ----------
        items
            What to grade. An unknown grader raises `InputError` before anything is graded.
        on_progress
            Called with (items settled so far, all items) whenever that number grows.
        """
        if os.getpid() != self._owner:
            self._disown()
        with self._turn:
            run = _Run(items, on_progress)
            try:
                while run.waiting or any(worker.item for worker in self._workers):
                    self._staff(run)
                    self._collect(run)
            except BaseException:
                self.close()  # or the next call would read this one's replies
                raise
        return [run.grades[item] for item in items]

    def close(self) -> None:
        """Kill all workers. The pool can be used again; it starts new ones."""
        while self._workers:
            self._workers.pop().kill()

    def _disown(self) -> None:
        self._owner, self._turn = os.getpid(), threading.Lock()
        self._workers: list[Worker] = []

    def _staff(self, run: "_Run") -> None:
        """Give each idle worker an item, and start workers for items that would otherwise wait."""
        for worker in [worker for worker in self._workers if worker.ready and worker.item is None]:
            if run.waiting and not worker.send(run.waiting[0]):
                self._discard(worker)
            elif run.waiting:
                run.waiting.popleft()
        starting = sum(not worker.ready for worker in self._workers)
        for _ in range(min(self._size - len(self._workers), len(run.waiting) - starting)):
            self._workers.append(Worker(self._seconds, self._memory_mb))

    def _collect(self, run: "_Run") -> None:
        """Wait for the next reply or deadline, and settle what it decides."""
        pending = [worker for worker in self._workers if worker.item or not worker.ready]
        nearest = min(worker.deadline for worker in pending)
        heard = wait([worker.pipe for worker in pending], max(0.0, nearest - time.monotonic()))
        for worker in pending:
            if worker.pipe in heard:
                self._hear(worker, run)
            elif worker.deadline <= time.monotonic():
                self._lose(worker, run, Grade.TIMEOUT)

    def _hear(self, worker: Worker, run: "_Run") -> None:
        reply = worker.receive()
        if reply is None:
            self._lose(worker, run, Grade.ERROR)
            return
        worker.ready = True
        if worker.item and reply.grade:
            run.settle(worker.item, reply.grade)
            worker.item = None
        if not reply.healthy:
            self._discard(worker)

    def _lose(self, worker: Worker, run: "_Run", grade: Grade) -> None:
        """Settle the item of a worker that overran or died. One that never started is a broken set-up."""
        exit_code = self._discard(worker)
        if worker.item is None:
            raise InputError(
                f"a grading worker ended with code {exit_code} before it was ready; see its message above,"
                f" and if memory ran out, raise memory_mb (now {self._memory_mb})"
            )
        run.settle(worker.item, grade)

    def _discard(self, worker: Worker) -> int:
        self._workers.remove(worker)
        return worker.kill()


class _Run:
    """One call of `grade_all`: what is settled, and what waits for a worker."""

    def __init__(self, items: Sequence[GradeItem], on_progress: Callable[[int, int], None] | None) -> None:
        self.grades: dict[GradeItem, Grade] = {}
        self.waiting: deque[GradeItem] = deque()
        self._copies = Counter(items)
        self._settled, self._total, self._on_progress = 0, len(items), on_progress
        graders = {kind: find_grader(kind) for kind in {item.kind for item in self._copies}}
        for item in self._copies:
            grade = graders[item.kind].grade_here(item)
            if grade is None:
                self.waiting.append(item)
            else:
                self.settle(item, grade)

    def settle(self, item: GradeItem, grade: Grade) -> None:
        self.grades[item] = grade
        self._settled += self._copies[item]
        if self._on_progress:
            self._on_progress(self._settled, self._total)


def find_grader(kind: str) -> Grader:
    """The grader called `kind`; an unknown name raises `InputError`."""
    from calibsft.verify import GRADERS  # the package imports this module before it can list its graders

    return GRADERS[kind] if kind in GRADERS else unknown_name("grader", kind, list(GRADERS))


def available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
