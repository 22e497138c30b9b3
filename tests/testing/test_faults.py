"""The kit's faulty I/O does what it was told, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.io import seam
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.seam import OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault, FaultKind
from tiermem.testing.faults import FaultyIO, Plan, Trouble, at, seeded, since

PAGE = 4096


@pytest.fixture
def plain() -> Iterator[PosixIO]:
    """What is spoilt here."""
    io = PosixIO(direct=False)
    yield io
    io.close()


def pages(file: OpenFile, memory: Buffer, *, write: bool) -> list[Piece]:
    """One piece a page, of two buffers."""
    return [
        Piece(file, n, (memory[n : n + PAGE], memory[n + PAGE : n + 2 * PAGE]), write)
        for n in range(0, len(memory), 2 * PAGE)
    ]


def answers_of(io: FaultyIO, directory: Path, *, write: bool) -> tuple[list[object], Buffer]:
    """Kinds of four pieces' answers, and what was written or read."""
    path = directory / "a"
    path.write_bytes(b"" if write else bytes(range(1, 9)) * PAGE)
    file = io.open(path)
    memory = seam.aligned(8 * PAGE)
    memory[:] = 7
    answers = io.transfer(pages(file, memory, write=write), 5)
    file.close()
    return [answer and answer.kind for answer in answers], memory


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (Trouble.IO, FaultKind.IO),
        (Trouble.SHORT, FaultKind.SHORT),
        (Trouble.PERMISSION, FaultKind.PERMISSION),
        (Trouble.NO_SPACE, FaultKind.SPACE),
    ],
)
def test_trouble_is_told_to_one_piece(
    plain: PosixIO, tmp_path: Path, trouble: Trouble, kind: FaultKind
) -> None:
    """The others are transferred."""
    io = FaultyIO(plain, at(write={2: trouble}))
    kinds, _ = answers_of(io, tmp_path, write=True)
    assert kinds == [None, None, kind, None]
    assert io.met == {trouble: 1}


def test_room_does_not_run_out_by_reading(plain: PosixIO, tmp_path: Path) -> None:
    """ENOSPC is for writes."""
    io = FaultyIO(plain, since(0, Trouble.NO_SPACE, "read", "write"))
    assert answers_of(io, tmp_path, write=False)[0] == [None] * 4
    assert io.met == {}


def test_a_flip_is_silent_and_seen_by_the_check(plain: PosixIO, tmp_path: Path) -> None:
    """Of what is read before its check; of what is written, on the device and not in memory."""
    io = FaultyIO(plain, at(read={1: Trouble.FLIP}))
    kinds, memory = answers_of(io, tmp_path, write=False)
    assert kinds == [None] * 4
    whole = np.frombuffer(bytes(range(1, 9)) * PAGE, dtype=np.uint8)
    assert np.count_nonzero(memory != whole) == 1
    io = FaultyIO(plain, at(write={1: Trouble.FLIP}))
    kinds, memory = answers_of(io, tmp_path, write=True)
    assert kinds == [None] * 4
    assert (memory == 7).all()
    assert np.count_nonzero(np.fromfile(tmp_path / "a", dtype=np.uint8) != 7) == 1
    io = FaultyIO(plain, at(read={0: Trouble.FLIP}))
    file = io.open(tmp_path / "a")
    page = seam.aligned(PAGE)
    bad = Fault(FaultKind.CHECKSUM, "")
    check = lambda: bad if (page != 7).any() else None  # noqa: E731
    assert io.transfer([Piece(file, 0, (page,), False, check)] * 2, 5) == [bad, None]
    file.close()


def test_a_hang_ends_in_a_time_out_and_comes_late(plain: PosixIO, tmp_path: Path) -> None:
    """Until it is released the memory is held; then the transfer is done after all."""
    io = FaultyIO(plain, at(write={0: Trouble.HANG}))
    path = tmp_path / "a"
    file = io.open(path, create=True)
    memory = seam.aligned(PAGE)
    memory[:] = 1
    (answer,) = io.transfer([Piece(file, 0, (memory,), True)], 0.01)
    assert answer is not None
    assert answer.kind is FaultKind.TIMEOUT
    assert io.holds((memory,))
    assert path.stat().st_size == 0
    io.release()
    assert not io.holds((memory,))
    assert path.read_bytes() == memory.tobytes()
    file.close()


def test_a_hang_that_is_released_in_time_is_none(plain: PosixIO, tmp_path: Path) -> None:
    """It was only slow."""
    io = FaultyIO(plain, at(write={0: Trouble.HANG}))
    file = io.open(tmp_path / "a", create=True)
    timer = threading.Timer(0.02, io.release)
    timer.start()
    assert io.transfer([Piece(file, 0, (seam.aligned(PAGE),), True)], 60) == [None]
    timer.join()
    file.close()


def test_files_can_be_refused(plain: PosixIO, tmp_path: Path) -> None:
    """As the kernel would."""
    io = FaultyIO(plain, at(open={0: Trouble.PERMISSION, 1: Trouble.NO_SPACE}))
    with pytest.raises(PermissionError):
        io.open(tmp_path / "a", create=True)
    with pytest.raises(OSError, match="No space"):
        io.open(tmp_path / "a", create=True)
    io.open(tmp_path / "a", create=True).close()


def drawn(plan: Plan, count: int = 2000) -> list[Trouble | None]:
    """What a plan does to reads."""
    return [plan("read", number) for number in range(count)]


def test_a_seed_always_gives_the_same(plain: PosixIO) -> None:
    """Its shares are about those asked for; another seed gives others; opens are left alone."""
    shares = {Trouble.IO: 0.1, Trouble.FLIP: 0.2}
    one = drawn(seeded(1, shares))
    assert one == drawn(seeded(1, shares))
    assert one != drawn(seeded(2, shares))
    assert 140 < one.count(Trouble.IO) < 260
    assert 320 < one.count(Trouble.FLIP) < 480
    assert seeded(1, {Trouble.IO: 1.0})("open", 0) is None
    assert seeded(1, {Trouble.IO: 1.0}, "open")("open", 0) is Trouble.IO


def test_trouble_can_last(plain: PosixIO) -> None:
    """Permission that is lost midway does not come back."""
    plan = since(3, Trouble.PERMISSION, "read")
    assert drawn(plan, 5) == [None] * 3 + [Trouble.PERMISSION] * 2
    assert plan("write", 9) is None
