"""What every path owes to those above the seam, over each path that this machine has."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.io.seam import ALIGN_BYTES, PIECE_BYTES, FileIO, OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault, FaultKind

RandomBytes = Callable[..., Buffer]

SIZES = (4096, 8192, 65536, 65536, 4096 * 17, 1 << 20, PIECE_BYTES, PIECE_BYTES, 4096)


def pieces_of(
    file: OpenFile, memory: Buffer, *, write: bool, gap: int = 0, buffers: int = 1
) -> list[Piece]:
    """`SIZES` one after the other in memory, and in the file with `gap` bytes between them."""
    pieces, start = [], 0
    for number, size in enumerate(SIZES):
        part = size // buffers // ALIGN_BYTES * ALIGN_BYTES or size
        cuts = range(0, size, part)
        parts = tuple(memory[start + cut : start + min(cut + part, size)] for cut in cuts)
        pieces.append(Piece(file, start + number * gap, parts, write))
        start += size
    return pieces


@pytest.mark.parametrize("gap", [0, 4096], ids=["neighbours", "scattered"])
@pytest.mark.parametrize("buffers", [1, 3])
def test_bytes_come_back(
    io: FileIO, tmp_path: Path, gap: int, buffers: int, random_bytes: RandomBytes
) -> None:
    """Whatever the sizes and the number of buffers, and whatever the order they are given in."""
    file = io.open(tmp_path / "a", create=True)
    source, target = random_bytes(sum(SIZES)), io.aligned(sum(SIZES))
    written = pieces_of(file, source, write=True, gap=gap, buffers=buffers)
    assert io.transfer(written[::-1], 30) == [None] * len(SIZES)
    read = pieces_of(file, target, write=False, gap=gap, buffers=buffers)
    assert io.transfer(read, 30) == [None] * len(SIZES)
    assert np.array_equal(source, target[: source.size])
    on_disk = (tmp_path / "a").read_bytes()
    for piece in written:
        part = b"".join(buffer.tobytes() for buffer in piece.buffers)
        assert on_disk[piece.offset : piece.offset + piece.nbytes] == part
    file.close()


def test_many_small_scattered_pieces(io: FileIO, tmp_path: Path, random_bytes: RandomBytes) -> None:
    """More than one native submission takes, with gaps, written and read back in one call each."""
    file = io.open(tmp_path / "a", create=True)
    count, size = 300, 8192
    source, target = random_bytes(count * size), io.aligned(count * size)
    for memory, write in ((source, True), (target, False)):
        pieces = [
            Piece(file, number * 2 * size, (memory[number * size : (number + 1) * size],), write)
            for number in range(count)
        ]
        assert io.transfer(pieces, 30) == [None] * count
    assert np.array_equal(source, target)
    file.close()


def test_a_short_read_is_a_fault_of_its_piece_alone(
    io: FileIO, tmp_path: Path, random_bytes: RandomBytes
) -> None:
    """Beyond the end there is nothing; the neighbours are read all the same."""
    path = tmp_path / "a"
    data = random_bytes(20 * 8192)
    path.write_bytes(data.tobytes() + b"x" * 100)
    file = io.open(path)
    memory = io.aligned(22 * 8192)
    pieces = [
        Piece(file, offset, (memory[offset : offset + 8192],), False)
        for offset in range(0, 22 * 8192, 8192)
    ]
    answers = io.transfer(pieces, 30)
    assert answers[:20] == [None] * 20
    assert [answer.kind for answer in answers[20:] if answer] == [FaultKind.SHORT] * 2
    assert np.array_equal(memory[: data.size], data)
    assert str(path) in str(answers[20])
    file.close()


def test_what_the_kernel_refuses_is_a_fault(io: FileIO, tmp_path: Path) -> None:
    """Writing to a file that was opened for reading fails, piece by piece, and raises nothing."""
    path = tmp_path / "a"
    path.write_bytes(bytes(1 << 20))
    file = io.open(path, read_only=True)
    memory = io.aligned(1 << 20)
    answers = io.transfer(
        [Piece(file, at, (memory[at : at + 8192],), True) for at in range(0, 1 << 20, 16384)], 30
    )
    assert {answer.kind for answer in answers if answer} <= {FaultKind.CLOSED, FaultKind.IO}
    assert None not in answers
    assert path.read_bytes() == bytes(1 << 20)
    file.close()


@pytest.mark.parametrize("small", [True, False])
def test_checks_run_before_writes_and_after_reads(io: FileIO, tmp_path: Path, small: bool) -> None:
    """A write's check fills in what is written; a read's sees what was read; its fault counts."""
    count = 40
    file = io.open(tmp_path / "a", create=True)
    source, target = io.aligned(count * 4096), io.aligned(count * 4096)
    gap = 2 if small else 1

    def part(memory: Buffer, number: int) -> Buffer:
        return memory[number * 4096 : (number + 1) * 4096]

    def fill(number: int) -> None:
        part(source, number)[:] = number + 1

    def refuse(number: int) -> Fault | None:
        assert part(target, number)[4095] == number + 1
        return Fault(FaultKind.CHECKSUM, f"{number}") if number % 2 else None

    io.transfer(
        [
            Piece(file, n * gap * 4096, (part(source, n),), True, lambda n=n: fill(n))
            for n in range(count)
        ],
        30,
    )
    answers = io.transfer(
        [
            Piece(file, n * gap * 4096, (part(target, n),), False, lambda n=n: refuse(n))
            for n in range(count)
        ],
        30,
    )
    assert [answer and answer.detail for answer in answers] == [
        str(n) if n % 2 else None for n in range(count)
    ]
    file.close()


def test_a_check_can_prevent_a_write(io: FileIO, tmp_path: Path, random_bytes: RandomBytes) -> None:
    """Its fault is the answer and the file is as it was."""
    path = tmp_path / "a"
    path.write_bytes(bytes(40 * 8192))
    file = io.open(path)
    memory = random_bytes(8192)
    fault = Fault(FaultKind.CHECKSUM, "no")
    pieces = [Piece(file, n * 8192, (memory,), True, lambda: fault) for n in range(0, 40, 2)]
    assert io.transfer(pieces, 30) == [fault] * 20
    assert path.read_bytes() == bytes(40 * 8192)
    file.close()


def test_a_mistake_in_a_check_is_raised(
    io: FileIO, tmp_path: Path, random_bytes: RandomBytes
) -> None:
    """Mistakes of ours are not faults of a device; the path works on afterwards."""
    file = io.open(tmp_path / "a", create=True)
    memory = random_bytes(8192)
    good = [Piece(file, n * 16384, (memory,), True) for n in range(20)]

    def wrong() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        io.transfer([good[0]._replace(check=wrong), *good[1:]], 30)
    assert io.transfer(good, 30) == [None] * 20
    file.close()


def test_a_closed_file_is_a_fault_and_closing_twice_is_none(
    io: FileIO, tmp_path: Path, random_bytes: RandomBytes
) -> None:
    """Nobody transfers by a descriptor that may belong to another file by now."""
    file = io.open(tmp_path / "a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.fd)
    pieces = [Piece(file, n * 8192, (random_bytes(4096),), True) for n in range(30)]
    assert {answer.kind for answer in io.transfer(pieces, 30) if answer} == {FaultKind.CLOSED}


def test_create_refuses_a_file_that_is_there(io: FileIO, tmp_path: Path) -> None:
    """And without `create` there must be one; both are errors of `open`."""
    io.open(tmp_path / "a", create=True).close()
    with pytest.raises(OSError, match="exists") as found:
        io.open(tmp_path / "a", create=True)
    assert found.value.errno == errno.EEXIST
    with pytest.raises(FileNotFoundError):
        io.open(tmp_path / "b")


def test_nothing_to_do_is_no_error(io: FileIO) -> None:
    """An empty batch has no answers."""
    assert io.transfer([], 1) == []


def test_many_callers_at_once(io: FileIO, tmp_path: Path, random_bytes: RandomBytes) -> None:
    """Eight threads, each with its own file range: each gets its own bytes back."""
    file = io.open(tmp_path / "a", create=True)
    wrong: list[object] = []

    def work(number: int) -> None:
        source, target = random_bytes(1 << 20, number), io.aligned(1 << 20)
        for size in (8192, 1 << 20):
            for memory, write in ((source, True), (target, False)):
                pieces = [
                    Piece(file, (number << 21) + 2 * at, (memory[at : at + size],), write)
                    for at in range(0, 1 << 20, size)
                ]
                wrong.extend(answer for answer in io.transfer(pieces, 30) if answer)
            if not np.array_equal(source, target):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    file.close()


def test_scratch_memory_is_aligned(io: FileIO) -> None:
    """To a page, at least as long as asked, writable."""
    for nbytes in (0, 1, 4096, 4097, 3 << 20):
        memory = io.aligned(nbytes)
        assert memory.ctypes.data % ALIGN_BYTES == 0
        assert memory.size % ALIGN_BYTES == 0
        assert memory.size >= nbytes
        memory[:] = 1


def test_a_closed_path_answers_closed(
    io: FileIO, tmp_path: Path, random_bytes: RandomBytes
) -> None:
    """No thread is left to wait for."""
    file = io.open(tmp_path / "a", create=True)
    io.close()
    answers = io.transfer([Piece(file, 0, (random_bytes(4096),), True)], 30)
    assert [answer.kind for answer in answers if answer] == [FaultKind.CLOSED]
    file.close()
