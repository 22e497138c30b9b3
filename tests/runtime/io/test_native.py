"""NIXL's ring: which pieces it gets, and what becomes of requests that fail or hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem.runtime.io import native, paths
from tiermem.runtime.io.native import GROUP_PIECES, LATE_MOST, RING_PIECES_LEAST, NativeIO
from tiermem.runtime.io.seam import IoPath, OpenFile, Piece
from tiermem.runtime.stores import Buffer, FaultKind

RandomBytes = Callable[..., Buffer]


class Slow:
    """NIXL's agent, whose requests do not end while `hang` is set."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self.hang = threading.Event()
        self.submitted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def transfer(self, handle: Any) -> Any:
        self.submitted += 1
        return self._agent.transfer(handle)

    def check_xfer_state(self, handle: Any) -> Any:
        return "PROC" if self.hang.is_set() else self._agent.check_xfer_state(handle)


@pytest.fixture
def slow(direct_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """What the next NativeIO submits to."""
    if not paths.installed(IoPath.NATIVE):
        pytest.skip("nixl_cu12 is not installed")
    agent = Slow(native._agent())
    monkeypatch.setattr(native, "_agent", lambda: agent)
    return agent


@pytest.fixture
def io(slow: Slow) -> Iterator[NativeIO]:
    """The path over `slow`."""
    made = NativeIO()
    yield made
    made.close()


@pytest.fixture
def file(io: NativeIO, direct_directory: Path) -> OpenFile:
    """Four mebibytes."""
    (direct_directory / "a").write_bytes(bytes(4 << 20))
    return io.open(direct_directory / "a")


def scattered(file: OpenFile, memory: Buffer, count: int, *, write: bool) -> list[Piece]:
    """Pieces of a page with a gap of one between them."""
    return [
        Piece(file, 8192 * n, (memory[4096 * n : 4096 * (n + 1)],), write) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "requests"),
    [
        (RING_PIECES_LEAST - 1, 0),
        (RING_PIECES_LEAST, 1),
        (GROUP_PIECES, 1),
        (GROUP_PIECES + 1, 2),
    ],
)
def test_the_ring_gets_batches_of_scattered_pieces(
    io: NativeIO, file: OpenFile, slow: Slow, count: int, requests: int
) -> None:
    """Few go through threads; a request has as many as NIXL submits at once."""
    memory = io.aligned(4096 * count)
    assert io.transfer(scattered(file, memory, count, write=False), 30) == [None] * count
    assert slow.submitted == requests
    file.close()


def test_long_runs_go_through_threads(io: NativeIO, file: OpenFile, slow: Slow) -> None:
    """Neighbours are one call of the kernel, which no ring beats."""
    memory = io.aligned(2 << 20)
    pieces = [Piece(file, at, (memory[at : at + 65536],), True) for at in range(0, 2 << 20, 65536)]
    assert io.transfer(pieces, 30) == [None] * 32
    assert slow.submitted == 0
    file.close()


def test_a_bad_piece_is_found_by_doing_its_group_again(
    io: NativeIO, file: OpenFile, random_bytes: RandomBytes
) -> None:
    """NIXL says that something failed; the answer says what, and the rest is done."""
    memory = random_bytes(4096 * 41)
    pieces = scattered(file, memory, 40, write=False)
    pieces.append(Piece(file, 1 << 30, (memory[4096 * 40 :],), False))
    answers = io.transfer(pieces, 30)
    assert answers[:40] == [None] * 40
    assert answers[40] is not None
    assert answers[40].kind is FaultKind.SHORT
    assert not memory[: 4096 * 40].any()
    file.close()


def test_a_request_that_hangs_is_kept_until_it_lands(
    io: NativeIO, file: OpenFile, slow: Slow, random_bytes: RandomBytes
) -> None:
    """Its memory and its file are its own until then; what had not begun never begins; after a
    few of them calls fail at once."""
    count = 6 * GROUP_PIECES
    memory, others = random_bytes(4096 * count), io.aligned(4096 * count)
    slow.hang.set()
    answers = io.transfer(scattered(file, memory, count, write=True), 0.05)
    assert [answer.kind for answer in answers if answer] == [FaultKind.TIMEOUT] * count
    assert slow.submitted == native.GROUPS_AHEAD == LATE_MOST
    assert io.holds((memory[:4096],))
    assert not io.holds((others,))
    answers = io.transfer(scattered(file, others, 3, write=False), 30)
    assert [answer.kind for answer in answers if answer] == [FaultKind.TIMEOUT] * 3
    assert "hang" in str(answers[0])
    file.close()
    assert file.fd >= 0
    slow.hang.clear()
    while io.holds((memory,)):  # each call asks NIXL again
        threading.Event().wait(0.001)
    again = io.open(file.path)
    read = scattered(again, others, count, write=False)
    assert io.transfer(read, 30) == [None] * count
    done = 4096 * GROUP_PIECES * native.GROUPS_AHEAD
    assert np.array_equal(others[:done], memory[:done])
    assert not others[done:].any()
    again.close()


def test_a_forked_child_is_told(io: NativeIO, file: OpenFile) -> None:
    """The ring belongs to the process that made it."""
    io._process += 1
    (answer,) = io.transfer(scattered(file, io.aligned(4096), 1, write=False), 30)
    assert answer is not None
    assert answer.kind is FaultKind.CLOSED
    file.close()
