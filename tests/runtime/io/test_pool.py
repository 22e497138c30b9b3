"""The pool: runs of neighbours, deadlines, and threads that hang."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.io.pool import Answer, Pool, overlap, runs, sorted_by_place, split
from tiermem.runtime.io.seam import OpenFile, Piece, aligned
from tiermem.runtime.stores import FaultKind


class Scripted:
    """A mover that hangs where it is told to, until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.hanging = threading.Semaphore(0)
        self.seen: list[list[int]] = []
        self.hang_at: set[int] = set()

    def __call__(self, run: Sequence[Piece]) -> list[Answer]:
        self.seen.append([piece.offset for piece in run])
        if self.hang_at & set(self.seen[-1]):
            self.hanging.release()
            self.go.wait(60)
        return [None] * len(run)


@pytest.fixture
def file(tmp_path: Path) -> OpenFile:
    """An open file that no mover here touches."""
    return OpenFile(tmp_path / "a", os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT))


def piece(file: OpenFile, offset: int, nbytes: int = 4096, *, write: bool = False) -> Piece:
    """One piece with memory of its own."""
    return Piece(file, offset, (aligned(nbytes),), write)


def test_neighbours_go_together(file: OpenFile) -> None:
    """A run ends at a gap, at another file or direction; the order given does not matter."""
    pieces = [piece(file, 8192), piece(file, 0), piece(file, 4096), piece(file, 16384)]
    pieces.append(piece(file, 20480, write=True))
    found = [[pieces[i].offset for i in run] for run in runs(pieces, sorted_by_place(pieces))]
    assert found == [[0, 4096, 8192], [16384], [20480]]
    file.close()


def test_runs_have_no_more_buffers_than_the_kernel_takes(file: OpenFile) -> None:
    """1,024 is the limit of one call (IOV_MAX)."""
    pieces = [piece(file, 4096 * number) for number in range(2500)]
    assert max(len(run) for run in runs(pieces, sorted_by_place(pieces))) <= 1024
    file.close()


@pytest.mark.parametrize("count", [1, 7, 64, 500])
def test_tasks_hold_each_piece_once(file: OpenFile, count: int) -> None:
    """And a batch of small ones is not a task for each."""
    pieces = [piece(file, 4096 * number) for number in range(count)]
    tasks = split(pieces, 4)
    assert sorted(index for task in tasks for index in task) == list(range(count))
    assert len(tasks) <= 9
    file.close()


def test_a_hang_is_left_behind_and_never_multiplies(file: OpenFile) -> None:
    """Past the deadline the answer is a time-out; the thread's memory is held until it returns;
    with every thread stuck calls fail at once; when the kernel lets go all is well again."""
    mover = Scripted()
    pool = Pool("test", mover, 2)
    mover.hang_at = {0, 1 << 20}
    stuck = [piece(file, 0), piece(file, 1 << 20)]
    for number, each in enumerate(stuck):
        (answer,) = pool.transfer([each], 1)
        assert answer is not None
        assert answer.kind is FaultKind.TIMEOUT
        assert pool.stuck_threads == number + 1
        assert pool.holds(each.buffers)
        if not number:
            assert pool.transfer([piece(file, 4096)], 30) == [None]
    assert not pool.holds((aligned(4096),))
    before = threading.active_count()
    answers = pool.transfer([piece(file, 4096)] * 3, 60)
    assert [answer.kind for answer in answers if answer] == [FaultKind.TIMEOUT] * 3
    assert "all 2 threads hang" in str(answers[0])
    assert threading.active_count() == before
    file.close()
    os.fstat(file.fd)  # the threads that hang still hold it
    other = OpenFile(file.path, os.open(file.path, os.O_RDWR))
    mover.go.set()
    while pool.stuck_threads:  # a bounded wait: the test has a time limit
        threading.Event().wait(0.001)
    assert pool.transfer([piece(other, 4096)], 30) == [None]
    assert not pool.holds(stuck[0].buffers)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file.fd)
    other.close()
    pool.close()


def test_what_had_not_begun_never_begins(file: OpenFile) -> None:
    """After the deadline nothing of the batch starts, so nothing of it can overwrite others."""
    mover = Scripted()
    pool = Pool("test", mover, 1)
    mover.hang_at = {0}
    batch = [piece(file, number << 21, 1 << 20) for number in range(8)]
    answers = pool.transfer(batch, 1)
    assert all(answer is not None and answer.kind is FaultKind.TIMEOUT for answer in answers)
    mover.go.set()
    while pool.stuck_threads:
        threading.Event().wait(0.001)
    assert pool.transfer([piece(file, 1 << 30)], 30) == [None]
    assert mover.seen == [[0], [1 << 30]]
    file.close()
    pool.close()


def test_finished_pieces_keep_their_answers(file: OpenFile) -> None:
    """A batch that is cut off still says which pieces were done."""
    mover = Scripted()
    pool = Pool("test", mover, 2)
    mover.hang_at = {9 << 21}
    batch = [piece(file, number << 21, 1 << 20) for number in range(10)]
    answers = pool.transfer(batch, 1)
    assert answers[:9] == [None] * 9
    assert answers[9] is not None
    mover.go.set()
    file.close()
    pool.close()


def test_a_forked_child_is_told(file: OpenFile) -> None:
    """Threads do not come along in a fork; nobody waits for those that are not there."""
    pool = Pool("test", Scripted(), 1)
    assert pool.transfer([piece(file, 0)], 30) == [None]
    pool._process += 1  # as it looks in a child
    (answer,) = pool.transfer([piece(file, 0)], 30)
    assert answer is not None
    assert answer.kind is FaultKind.CLOSED
    assert "fork" in answer.detail
    file.close()
    pool.close()


def test_idle_threads_keep_nobodys_memory(file: OpenFile) -> None:
    """A buffer is gone when its owner lets it go, not at the next transfer."""
    pool = Pool("test", Scripted(), 1)
    seen: list[str] = []

    class Memory(np.ndarray):
        def __del__(self) -> None:
            seen.append("gone")

    memory = np.zeros(4096, dtype=np.uint8).view(Memory)
    assert pool.transfer([Piece(file, 0, (memory,), False)], 30) == [None]
    del memory
    for _ in range(1000):
        if seen:
            break
        threading.Event().wait(0.001)
    assert seen == ["gone"]
    file.close()
    pool.close()


def test_overlap_is_by_byte(file: OpenFile) -> None:
    """Views of one memory overlap where they share bytes, and nowhere else."""
    memory = aligned(3 * 4096)
    held = [Piece(file, 0, (memory[4096:8192],), False)]
    assert overlap((memory[8191:],), held)
    assert overlap((memory[:4097],), held)
    assert not overlap((memory[:4096], memory[8192:]), held)
    file.close()
