"""Plain system calls: which descriptor, and what is tried again alone."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem.runtime.io import pagecache, posix
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.seam import Piece
from tiermem.runtime.stores import Buffer, FaultKind

RandomBytes = Callable[..., Buffer]


def test_direct_passes_by_the_page_cache_and_buffered_does_not(
    direct_directory: Path, random_bytes: RandomBytes
) -> None:
    """Known fault 101: the mode is what the page cache says, not what was asked for."""
    shares = {}
    for direct in (True, False):
        io = PosixIO(direct=direct)
        file = io.open(direct_directory / f"{direct}", create=True)
        assert io.transfer([Piece(file, 0, (random_bytes(1 << 20),), True)], 30) == [None]
        shares[direct] = pagecache.resident_share(file.fd, 0, 1 << 20)
        file.close()
        io.close()
    assert shares[False] == 1.0
    if shares[True] == 1.0:
        pytest.skip("the temporary directory accepts O_DIRECT and ignores it")
    assert shares[True] < 0.1


def test_one_bad_piece_does_not_spoil_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, random_bytes: RandomBytes
) -> None:
    """The run fails as a whole, then each is tried alone and says what it met."""
    io = PosixIO(direct=False)
    file = io.open(tmp_path / "a", create=True)
    calls: list[tuple[int, int]] = []
    pwritev = os.pwritev

    def failing(fd: int, buffers: list[memoryview], offset: int) -> int:
        calls.append((offset, len(buffers)))
        if offset <= 8192 < offset + 4096 * len(buffers):
            raise OSError(errno.EIO, "Input/output error")
        return pwritev(fd, buffers, offset)

    monkeypatch.setattr(posix.os, "pwritev", failing)
    memory = random_bytes(4 * 4096)
    pieces = [Piece(file, at, (memory[at : at + 4096],), True) for at in range(0, 16384, 4096)]
    answers = posix.move(pieces)
    assert [answer and answer.kind for answer in answers] == [None, None, FaultKind.IO, None]
    assert calls == [(0, 4), (0, 1), (4096, 1), (8192, 1), (12288, 1)]
    assert (tmp_path / "a").read_bytes()[12288:] == memory[12288:].tobytes()
    file.close()
    io.close()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, FaultKind.IO),
        (errno.ENOSPC, FaultKind.SPACE),
        (errno.EDQUOT, FaultKind.SPACE),
        (errno.EACCES, FaultKind.PERMISSION),
        (errno.EROFS, FaultKind.PERMISSION),
        (errno.ESTALE, FaultKind.MISSING),
    ],
)
def test_errors_have_their_kind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: FaultKind,
    random_bytes: RandomBytes,
) -> None:
    """And name the file."""
    io = PosixIO(direct=False)
    file = io.open(tmp_path / "a", create=True)

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(posix.os, "preadv", failing)
    (answer,) = posix.move([Piece(file, 0, (random_bytes(4096),), False)])
    assert answer is not None
    assert answer.kind is kind
    assert os.strerror(number) in answer.detail
    assert str(tmp_path / "a") in answer.detail
    file.close()
    io.close()


def test_a_write_that_was_cut_short_says_why(tmp_path: Path, random_bytes: RandomBytes) -> None:
    """The kernel writes what it may, and gives its reason only for the rest."""
    io = PosixIO(direct=False)
    file = io.open(tmp_path / "file", create=True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        (fault,) = io.transfer([Piece(file, 4096, (random_bytes(16384),), True)], 30)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert fault is not None
    assert fault.kind is FaultKind.SPACE
    assert "RLIMIT_FSIZE (ulimit -f) is 8,192 bytes" in fault.detail
    file.close()
    io.close()
