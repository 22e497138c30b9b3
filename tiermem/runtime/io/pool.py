"""A few threads that do blocking transfers, and a bound on how long anyone waits for them.

The threads are given runs of neighbouring pieces and not single ones: a hop to a Python thread
costs as much as the transfer of a small block. A thread that hangs in the kernel is not waited for
beyond its batch's deadline, is never replaced (so no more than `threads` can hang) and takes up
work again when the kernel lets it go. This file makes no system call itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from tiermem.runtime.io.seam import OpenFile, Piece, closed, late
from tiermem.runtime.stores import Buffer, Fault, FaultKind

Answer = Fault | None
Mover = Callable[[Sequence[Piece]], list[Answer]]
"""Transfers a run (pieces of one file and direction, one after the other in it), blocking."""

THREADS = 4
"""By default. Two keep a virtio disk busy, four hide checksums too; more only fight over it."""

TASK_BYTES_LEAST, TASK_BYTES_MOST = 256 << 10, 16 << 20
BUFFERS_MOST = 1000  # of one run; the kernel takes 1024 (IOV_MAX)

_PENDING = Fault(FaultKind.TIMEOUT, "")
_numbers = count(1)


class _Batch:
    """One call of `transfer`: its answers so far, and whether anyone still waits for them."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.answers: list[Answer] = [_PENDING] * len(pieces)
        self.tasks_left = 0
        self.over = False
        self.mistake: BaseException | None = None


Task = tuple[_Batch, list[int]]


class Pool:
    """`threads` daemon threads in front of one blocking mover."""

    def __init__(self, name: str, mover: Mover, threads: int = THREADS) -> None:
        assert threads > 0
        self.threads = threads
        self._name = name
        self._mover = mover
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)  # a task, or the end
        self._finished = threading.Condition(self._lock)  # a batch's last task
        self._queue: deque[Task] = deque()
        self._running: dict[int, tuple[_Batch, Sequence[Piece]]] = {}
        self._process = 0  # in which the threads live; a fork leaves them behind
        self._closed = False

    @property
    def stuck_threads(self) -> int:
        """Threads that are in a transfer which nobody waits for any more."""
        with self._lock:
            return self._stuck()

    def _stuck(self) -> int:
        return sum(batch.over for batch, _ in self._running.values())

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Answer]:
        """See `FileIO.transfer`."""
        if not pieces:
            return []
        end = time.monotonic() + deadline_s
        batch = _Batch(pieces)
        tasks = [(batch, indices) for indices in split(pieces, self.threads)]
        batch.tasks_left = len(tasks)
        with self._lock:
            refused = self._refusal()
            if refused is not None:
                return [refused] * len(pieces)
            self._queue.extend(tasks)
            self._wanted.notify(len(tasks))
            while batch.tasks_left and batch.mistake is None:
                left = end - time.monotonic()
                if left <= 0 or not self._finished.wait(left):
                    break
            answers = self._give_up(batch)
        if batch.mistake is not None:
            raise batch.mistake
        return answers

    def _refusal(self) -> Fault | None:
        """Why no transfer can begin; starts the threads when this is the first."""
        if self._closed:
            return closed(self._name)
        if not self._process:
            self._process = os.getpid()
            for _ in range(self.threads):
                name = f"tiermem-{self._name}-{next(_numbers)}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        if self._process != os.getpid():
            return Fault(FaultKind.CLOSED, f"{self._name}: opened before a fork; open it again")
        if self._stuck() == self.threads:
            detail = f"{self._name}: all {self.threads} threads hang in earlier transfers"
            return Fault(FaultKind.TIMEOUT, detail)
        return None

    def _give_up(self, batch: _Batch) -> list[Answer]:
        """Nobody waits for `batch` any more; its answers, a time-out where there is none."""
        batch.over = True
        if not batch.tasks_left:
            return batch.answers
        self._queue = deque(task for task in self._queue if task[0] is not batch)
        return [
            late(piece.file.path) if answer is _PENDING else answer
            for piece, answer in zip(batch.pieces, batch.answers, strict=True)
        ]

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """See `FileIO.holds`."""
        with self._lock:
            overdue = [pieces for batch, pieces in self._running.values() if batch.over]
        return overlap(buffers, [piece for pieces in overdue for piece in pieces])

    def close(self) -> None:
        """End the threads; those that hang end when the kernel lets them go."""
        with self._lock:
            self._closed = True
            self._wanted.notify_all()

    def _work(self) -> None:
        """One thread's life."""
        while True:
            with self._lock:
                while not self._queue:
                    if self._closed:
                        return
                    self._wanted.wait()
                batch, indices = self._queue.popleft()
            try:
                self._do(batch, indices)
            except BaseException as mistake:  # of a check, or of ours: whoever asked is told
                batch.mistake = mistake
            with self._lock:
                self._running.pop(threading.get_ident(), None)
                batch.tasks_left -= 1
                if not batch.tasks_left or batch.mistake is not None:
                    self._finished.notify_all()
            del batch  # an idle thread keeps nobody's memory

    def _do(self, batch: _Batch, indices: list[int]) -> None:
        pieces, answers = batch.pieces, batch.answers
        for index in indices:
            piece = pieces[index]
            if piece.write and piece.check is not None:
                answers[index] = piece.check() or _PENDING
        ready = [index for index in indices if answers[index] is _PENDING]
        with self._lock:
            if batch.over:
                return
            self._running[threading.get_ident()] = batch, [pieces[index] for index in ready]
        for run in runs(pieces, ready):
            if batch.over:
                return
            found = _held(pieces[run[0]].file, [pieces[index] for index in run], self._mover)
            for index, answer in zip(run, found, strict=True):
                piece = pieces[index]
                if answer is None and piece.check is not None and not piece.write:
                    answer = piece.check()
                answers[index] = answer


def _held(file: OpenFile, run: Sequence[Piece], mover: Mover) -> list[Answer]:
    if not file.hold():
        return [closed(file.path)] * len(run)
    try:
        return mover(run)
    finally:
        file.let_go()


def bounds(buffer: Buffer) -> tuple[int, int]:
    """The first address of a buffer, of the host or of a device, and the one after its last."""
    place = getattr(buffer, "__cuda_array_interface__", None) or buffer.__array_interface__
    start = int(place["data"][0])
    return start, start + buffer.nbytes


def overlap(buffers: Sequence[Buffer], pieces: Sequence[Piece]) -> bool:
    """Whether any of these buffers shares a byte with any of those pieces."""
    ours = [bounds(buffer) for buffer in buffers]
    theirs = [bounds(buffer) for piece in pieces for buffer in piece.buffers]
    return any(a < d and c < b for a, b in ours for c, d in theirs)


def sorted_by_place(pieces: Sequence[Piece]) -> list[int]:
    """The indices of `pieces`, neighbours in a file one after the other, reads before writes."""
    keys = [(piece.write, id(piece.file), piece.offset) for piece in pieces]
    return sorted(range(len(pieces)), key=keys.__getitem__)


def split(pieces: Sequence[Piece], threads: int) -> list[list[int]]:
    """The indices of `pieces` in tasks: neighbours in a file together, about two tasks a thread."""
    sizes = [piece.nbytes for piece in pieces]
    most = min(max(sum(sizes) // (2 * threads), TASK_BYTES_LEAST), TASK_BYTES_MOST)
    tasks: list[list[int]] = [[]]
    nbytes = 0
    for index in sorted_by_place(pieces):
        if nbytes and nbytes + sizes[index] > most:
            tasks.append([])
            nbytes = 0
        tasks[-1].append(index)
        nbytes += sizes[index]
    return tasks


def runs(pieces: Sequence[Piece], order: Sequence[int]) -> Iterator[list[int]]:
    """`order` cut where a piece does not follow the one before it in the same file."""
    run: list[int] = []
    buffers = end = 0
    for index in order:
        piece = pieces[index]
        if run:
            last = pieces[run[-1]]
            follows = last.file is piece.file and last.write == piece.write and end == piece.offset
            if not follows or buffers + len(piece.buffers) > BUFFERS_MOST:
                yield run
                run, buffers = [], 0
        run.append(index)
        buffers += len(piece.buffers)
        end = piece.offset + piece.nbytes
    if run:
        yield run
