"""Proving transfers: children that work, fail, lie, abort or hang."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tiermem.runtime.io import proving
from tiermem.runtime.io.directory import mount_of
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.proving import Proof, prove
from tiermem.runtime.io.seam import IoPath, OpenFile, Piece
from tiermem.runtime.stores import Fault, FaultKind


@pytest.mark.parametrize("path", [IoPath.POSIX_DIRECT, IoPath.POSIX_BUFFERED])
def test_a_good_path_is_proved_and_leaves_nothing(path: IoPath, direct_directory: Path) -> None:
    """And whether it passed by the page cache is known."""
    if mount_of(direct_directory).filesystem == "tmpfs":
        pytest.skip("the temporary directory lies in memory")
    before = sorted(direct_directory.iterdir())
    assert prove(direct_directory, path) == Proof("", path is IoPath.POSIX_DIRECT)
    assert sorted(direct_directory.iterdir()) == before


def test_direct_is_refused_where_it_means_nothing() -> None:
    """Known faults 94, 101: tmpfs accepts O_DIRECT (or refuses it), and no device is met."""
    shm = Path("/dev/shm")
    if mount_of(shm).filesystem != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    assert "O_DIRECT" in prove(shm, IoPath.POSIX_DIRECT).reason
    assert prove(shm, IoPath.POSIX_BUFFERED) == Proof("", False)
    assert not list(shm.glob(".tiermem-*"))


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the proving child be `code`; `sys.argv[1]` is the file."""
    start = subprocess.Popen

    def other(command: list[str], **options: object) -> object:
        return start([sys.executable, "-c", code, command[-1]], **options)

    monkeypatch.setattr(proving.subprocess, "Popen", other)


MAKE = "import sys, os, time, signal; open(sys.argv[1], 'w').close();"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.abort()", "ended by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("sys.exit('no such driver')", "ended with 1: no such driver"),
        ("print('hello')", "ended with 0"),
        ("time.sleep(60)", "did not end within 0.5 s"),
    ],
)
def test_a_child_that_breaks_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    """Known fault 96: a library that ends the process ends the child; its file goes too."""
    child(monkeypatch, MAKE + code)
    started = time.monotonic()
    limit = 0.5 if "sleep" in code else 20.0
    assert reason in prove(tmp_path, IoPath.POSIX_DIRECT, limit_s=limit).reason
    assert time.monotonic() - started < 10
    assert list(tmp_path.iterdir()) == []


class Liar(PosixIO):
    """Says that all is well, and is wrong in the way it is told to be."""

    def __init__(self, lie: str) -> None:
        super().__init__(direct=False)
        self.lie = lie

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Fault | None]:
        """See `FileIO`."""
        if self.lie == "fault":
            return [Fault(FaultKind.IO, "the device is on fire")] * len(pieces)
        answers = super().transfer(pieces, deadline_s)
        if self.lie == "read" and not pieces[0].write:
            pieces[0].buffers[0][17] ^= 1
        if self.lie == "write" and pieces[0].write:
            self._other = [[buffer.copy() for buffer in piece.buffers] for piece in pieces]
            os.pwrite(pieces[0].file.fd, b"?", 17)
        if self.lie == "write" and not pieces[0].write:
            for piece, buffers in zip(pieces, self._other, strict=True):
                piece.buffers[0][:] = buffers[0]
        return answers


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("fault", "on fire"),
        ("read", "the bytes that were read are not"),
        ("write", "the bytes in the file are not"),
    ],
)
def test_a_path_that_lies_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str, reason: str
) -> None:
    """What was read is compared, and the file is looked at behind the path's back."""
    monkeypatch.setattr(proving, "make", lambda _: Liar(lie))
    assert reason in proving.transfer(IoPath.POSIX_BUFFERED, tmp_path / "a").reason


def test_what_open_refuses_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EINVAL is the file system's way to refuse O_DIRECT; others are in the kernel's words."""
    for error, reason in ((OSError(22, "Invalid argument"), "O_DIRECT"), (OSError(13, "No"), "No")):

        def refused(*_: object, error: OSError = error, **__: object) -> OpenFile:
            raise error

        monkeypatch.setattr(PosixIO, "open", refused)
        assert reason in proving.transfer(IoPath.POSIX_DIRECT, tmp_path / "a").reason
