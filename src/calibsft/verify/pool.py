"""Grade many answers under hard limits of time and memory, in replaceable worker processes.

The limit of time is processor time of the worker, so that neither a busy machine nor the length of the queue
turns a right answer into a wrong one. A worker that overruns ends and costs its item a `TIMEOUT`; one that dies
otherwise costs its item an `ERROR`; every other item is unaffected, and the next worker is there within
milliseconds. Does not grade: graders do, here for the cheap items, in `worker` for the rest.
"""

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from types import TracebackType
from typing import Self

from calibsft.errors import InputError, unknown_name
from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader
from calibsft.verify.nursery import Nursery, NurseryLostError, Worker

_CHUNK = 8
_MAX_SETBACKS = 10
# The second ends an item that only slept, should the wall-clock limit kept here have failed to.
_OUT_OF_TIME = (-signal.SIGPROF, -signal.SIGALRM)


class VerifierPool:
    """Worker processes that grade; use as a context manager, or call `close`.

    Processes start when the first item needs one, which takes about a second, and survive between calls of
    `grade_all`. Calls from several threads take turns; a forked child starts processes of its own.

    Parameters
    ----------
    workers
        At most this many workers; None for one per available processor.
    seconds
        Processor time per item, all aliases together. By the clock an item may take ten times as long, and
        ten seconds at least: that catches what sleeps.
    memory_mb
        Address space of one worker in MiB.
    """

    _workers: list[Worker]
    _nursery: Nursery | None

    def __init__(self, workers: int | None = None, seconds: float = 0.8, memory_mb: int = 2048) -> None:
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
                for _ in run.sift():
                    self._open()  # it imports while the rest is sifted
                while run.waiting or any(worker.items for worker in self._workers):
                    self._advance(run)
            except BaseException:
                self.close()  # or the next call would read this one's replies
                raise
        return [run.grades[item] for item in items]

    def close(self) -> None:
        """End all processes. The pool can be used again; it starts new ones."""
        while self._workers:
            self._workers.pop().pipe.close()
        if nursery := self._nursery:
            self._nursery = None
            nursery.close()

    def _disown(self) -> None:
        self._owner, self._turn = os.getpid(), threading.Lock()
        self._workers, self._nursery = [], None

    def _open(self) -> Nursery:
        self._nursery = self._nursery or Nursery(self._seconds, self._memory_mb)
        return self._nursery

    def _advance(self, run: "_Run") -> None:
        try:
            self._staff(run)
            self._collect(run)
        except NurseryLostError:
            for worker in self._workers:
                run.put_back(worker.items)
            self.close()
            run.count_setback()

    def _staff(self, run: "_Run") -> None:
        """Give each idle worker something to do, and start workers for items that would otherwise wait."""
        for worker in [worker for worker in self._workers if not worker.items]:
            self._employ(worker, run)
        while run.waiting and len(self._workers) < self._size:
            nursery = self._open()
            nursery.wait_until_ready()
            worker = Worker(nursery, self._seconds)
            self._workers.append(worker)
            self._employ(worker, run)

    def _employ(self, worker: Worker, run: "_Run") -> None:
        chunk = run.take(self._size)
        if chunk and not worker.send(chunk):
            run.put_back(chunk)
            self._discard(worker)
            run.count_setback()

    def _collect(self, run: "_Run") -> None:
        """Wait for the next reply or deadline, and settle what it decides."""
        busy = [worker for worker in self._workers if worker.items]
        nearest = min((worker.deadline for worker in busy), default=0.0)
        heard = wait([worker.pipe for worker in busy], max(0.0, nearest - time.monotonic()))
        for worker in busy:
            if worker.pipe in heard:
                self._hear(worker, run)
            elif worker.deadline <= time.monotonic():
                self._lose(worker, run, overran=True)

    def _hear(self, worker: Worker, run: "_Run") -> None:
        reply = worker.receive()
        if reply is None:
            self._lose(worker, run, overran=False)
            return
        run.settle(worker.items.popleft(), reply.grade)
        if not reply.healthy:
            self._discard(worker)
            run.put_back(worker.items)

    def _lose(self, worker: Worker, run: "_Run", overran: bool) -> None:
        """Settle the item of a worker that overran or died; the items behind it wait for another worker."""
        exit_code = self._discard(worker)
        late = overran or exit_code in _OUT_OF_TIME
        run.settle(worker.items.popleft(), Grade.TIMEOUT if late else Grade.ERROR)
        run.put_back(worker.items)

    def _discard(self, worker: Worker) -> int:
        exit_code = self._open().end(worker)
        self._workers.remove(worker)
        return exit_code


class _Run:
    """One call of `grade_all`: what is settled, and what waits for a worker."""

    def __init__(self, items: Sequence[GradeItem], on_progress: Callable[[int, int], None] | None) -> None:
        self.grades: dict[GradeItem, Grade] = {}
        self.waiting: deque[GradeItem] = deque()
        self._copies = Counter(items)
        self._settled, self._total, self._on_progress = 0, len(items), on_progress
        self._graders = {kind: find_grader(kind) for kind in {item.kind for item in self._copies}}
        self._setbacks = 0

    def sift(self) -> Iterator[GradeItem]:
        """Settle what needs no worker, and yield the rest, which then waits."""
        for item in self._copies:
            grade = self._graders[item.kind].grade_here(item)
            if grade is None:
                self.waiting.append(item)
                yield item
            else:
                self.settle(item, grade)

    def take(self, workers: int) -> list[GradeItem]:
        """The next few items, fewer towards the end, so that all workers finish together."""
        count = min(_CHUNK, -(-len(self.waiting) // (2 * workers)))
        return [self.waiting.popleft() for _ in range(count)]

    def put_back(self, items: Iterable[GradeItem]) -> None:
        self.waiting.extendleft(reversed(list(items)))

    def settle(self, item: GradeItem, grade: Grade) -> None:
        self.grades[item] = grade
        self._settled += self._copies[item]
        if self._on_progress:
            self._on_progress(self._settled, self._total)

    def count_setback(self) -> None:
        """Note that processes ended for no fault of an item; too often means that it would never end."""
        self._setbacks += 1
        if self._setbacks > _MAX_SETBACKS:
            raise InputError(
                f"the grading processes were ended from outside {self._setbacks} times;"
                " check whether the machine is short of memory or limits the number of processes"
            )


def find_grader(kind: str) -> Grader:
    """The grader called `kind`; an unknown name raises `InputError`."""
    from calibsft.verify import GRADERS  # the package imports this module before it can list its graders

    return GRADERS[kind] if kind in GRADERS else unknown_name("grader", kind, list(GRADERS))


def available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
