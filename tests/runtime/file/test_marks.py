"""Marks: believed in the boot they were made in, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiermem.runtime.file.head import HEAD_BYTES, MARKS_HEADER_BYTES
from tiermem.runtime.file.marks import Marks, boot_name


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """A file to write to."""
    opened = os.open(tmp_path / "marks", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def loaded(fd: int, slots: int = 100, boot: bytes = b"today") -> tuple[bool, list[int]]:
    marks = Marks(fd, slots, boot)
    return marks.load(), marks.numbers()


def test_marks_are_found_again(fd: int) -> None:
    """Set, cleared, one by one and many at once."""
    marks = Marks(fd, 100, b"today")
    marks.reset([1, 5])
    marks.put([99, 0, 7], True)
    marks.put([5], False)
    assert loaded(fd) == (True, [0, 1, 7, 99])
    marks.reset()
    assert loaded(fd) == (True, [])


def test_another_boot_does_not_believe(fd: int) -> None:
    """Nor one that has no name."""
    Marks(fd, 100, b"today").reset([3])
    assert loaded(fd, boot=b"tomorrow") == (False, [])
    Marks(fd, 100, b"").reset([3])
    assert loaded(fd, boot=b"") == (False, [])


def test_marks_that_were_cut_short_are_not_believed(fd: int) -> None:
    """A missing end is not a row of zeros; nor is a file without any."""
    Marks(fd, 100, b"today").reset([3])
    os.ftruncate(fd, HEAD_BYTES + MARKS_HEADER_BYTES + 50)
    assert loaded(fd) == (False, [])
    os.ftruncate(fd, 0)
    assert loaded(fd) == (False, [])


def test_a_kill_within_a_reset_leaves_nothing_believed(fd: int, monkeypatch: pytest.MonkeyPatch):
    """The name goes first and comes back last."""
    marks = Marks(fd, 100, b"today")
    marks.reset([1])
    real, calls = os.pwrite, []

    def dying(fd: int, content: bytes, offset: int) -> int:
        calls.append(offset)
        if len(calls) == 3:
            raise OSError("killed")
        return real(fd, content, offset)

    monkeypatch.setattr(os, "pwrite", dying)
    with pytest.raises(OSError, match="killed"):
        marks.reset([2])
    monkeypatch.undo()
    assert loaded(fd) == (False, [])


def test_a_short_write_is_an_error(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a mark is none."""
    marks = Marks(fd, 100, b"today")
    monkeypatch.setattr(os, "pwrite", lambda fd, content, offset: 0)
    with pytest.raises(OSError, match="0 of 1 bytes"):
        marks.put([1], True)


def test_this_boot_has_a_name() -> None:
    """The same one each time, and short enough for its place."""
    assert boot_name() == boot_name()
    assert len(boot_name()) <= MARKS_HEADER_BYTES
