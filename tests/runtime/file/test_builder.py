"""Segment files: made held, prepared once, cut anew, removed; nothing is left of what failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiermem.runtime.file.builder import Builder, forget, meaning_of
from tiermem.runtime.file.folder import Folder, hold
from tiermem.runtime.file.head import Head, parse
from tiermem.runtime.io.seam import FileIO
from tiermem.runtime.stores import Fault, FaultKind
from tiermem.testing.faults import FaultyIO, Trouble, at

SIZE = 8192


def head_of(path: Path) -> Head:
    head = parse(path.read_bytes()[:4096])
    assert isinstance(head, Head)
    return head


def test_a_new_segment_is_ours_at_once(builder: Builder, folder: Folder) -> None:
    """It says what it is, and no other process can take it."""
    segment = builder.create(SIZE, 100)
    path = segment.file.path
    assert head_of(path).identity == "tests"
    fd = os.open(path, os.O_RDWR)
    assert not hold(fd)
    builder.remove(segment)
    assert folder.segments() == []
    os.close(fd)


def test_slots_are_written_once_before_use(builder: Builder) -> None:
    """The blocks of the file are there, and zero."""
    segment = builder.create(SIZE, 1000)
    assert builder.prepare(segment, 300, 10.0) is None
    segment.extend(300)
    fields = os.stat(segment.file.path)
    assert fields.st_size == segment.file_bytes
    assert fields.st_blocks * 512 >= 300 * SIZE
    assert not any(os.pread(segment.file.fd, 300 * SIZE, segment.offset(0)))
    segment.close()


@pytest.mark.parametrize("trouble", [Trouble.IO, Trouble.NO_SPACE, Trouble.SHORT])
def test_a_failed_preparation_leaves_the_file_as_it_was(
    folder: Folder, io: FileIO, trouble: Trouble
) -> None:
    """Its length, that is: what was booked for it can be given back."""
    faulty = FaultyIO(io, at(write={1: trouble}))
    builder = Builder(folder, faulty, meaning_of("tests"), b"boot")
    segment = builder.create(SIZE, 1000)
    assert builder.prepare(segment, 100, 10.0) is None
    segment.extend(100)
    fault = builder.prepare(segment, 100, 10.0)
    assert isinstance(fault, Fault)
    assert os.stat(segment.file.path).st_size == segment.file_bytes
    assert not builder.late()
    segment.close()


def test_a_preparation_that_hangs_is_late(folder: Folder, io: FileIO) -> None:
    """Until the device lets it go."""
    faulty = FaultyIO(io, at(write={0: Trouble.HANG}))
    builder = Builder(folder, faulty, meaning_of("tests"), b"boot")
    segment = builder.create(SIZE, 1000)
    fault = builder.prepare(segment, 10, 0.05)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.TIMEOUT
    assert builder.late()
    faulty.release()
    assert not builder.late()
    segment.close()


def test_without_preallocation_it_works_too(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every file system has it."""

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    segment = builder.create(SIZE, 10)
    assert builder.prepare(segment, 10, 10.0) is None
    assert os.stat(segment.file.path).st_size == segment.offset(10)
    segment.close()


def test_a_segment_cut_anew_forgets(builder: Builder) -> None:
    """Other slots, no marks, a floor, and no longer than they need."""
    segment = builder.create(SIZE, 100)
    assert builder.prepare(segment, 100, 10.0) is None
    segment.extend(100)
    segment.marks.put([3], True)
    anew = builder.recut(segment, builder.head(5 * SIZE, 50, 99), 15)
    assert head_of(segment.file.path) == anew.head
    assert (anew.head.floor, anew.ready, anew.free_slots) == (99, 15, 15)
    assert anew.marks.load()
    assert anew.marks.numbers() == []
    assert os.stat(segment.file.path).st_size == anew.file_bytes
    forget(anew, 120)
    forget(anew, 110)
    assert head_of(segment.file.path).floor == anew.head.floor == 120
    anew.close()


def test_a_stale_file_goes_only_if_nobody_has_it(builder: Builder, folder: Folder) -> None:
    """The lock decides; a file that is gone already is nobody's trouble."""
    path = folder.new_path()
    path.write_bytes(b"x")
    fd = os.open(path, os.O_RDWR)
    assert hold(fd)
    assert not builder.remove_stale(path)
    assert path.exists()
    os.close(fd)
    assert builder.remove_stale(path)
    assert not builder.remove_stale(path)


def test_a_creation_that_fails_leaves_nothing(
    builder: Builder, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, no descriptor."""
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="No space"):
        builder.create(SIZE, 10)
    assert folder.segments() == []
    assert len(os.listdir("/proc/self/fd")) == before
