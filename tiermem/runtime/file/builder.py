"""Making, preparing, recutting and removing segment files. Knows no capacity and takes no lock."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import NamedTuple

from tiermem.runtime.file.folder import Folder, hold, still_there
from tiermem.runtime.file.head import Head, fingerprint, pack
from tiermem.runtime.file.segment import Segment
from tiermem.runtime.io.seam import PIECE_BYTES, FileIO, Piece, fault_of
from tiermem.runtime.stores import Fault

_NO_PREALLOCATION = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Meaning(NamedTuple):
    """What the blocks of a store mean: a text, and the fingerprint that headers carry."""

    store: bytes
    identity: str


def meaning_of(identity: str) -> Meaning:
    """The meaning that a text names."""
    return Meaning(fingerprint(identity), identity)


class Builder:
    """The hands of a store's room."""

    def __init__(self, folder: Folder, io: FileIO, meaning: Meaning, boot: bytes) -> None:
        self._folder = folder
        self._io = io
        self._meaning = meaning
        self._boot = boot
        self._zeros = io.aligned(PIECE_BYTES)[:PIECE_BYTES]

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._folder.path

    def create(self, size: int, slots: int) -> Segment:
        """An empty segment, held. Raises OSError, and then nothing is left of it."""
        with self._folder.locked():  # which finds the directory again where it was moved
            path = self._folder.new_path()
            file = self._io.open(path, create=True)
            held = hold(file.fd)
        try:
            assert held, "a file that was just made has no other owner"
            segment = Segment(file, self.head(size, slots, 0), self._boot)
            _write_head(segment)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            file.close()
            raise
        return segment

    def prepare(self, segment: Segment, slots: int, deadline_s: float) -> Fault | None:
        """Write `slots` more slots once, with zeros: writes over fresh space are slow. After a
        fault the file is as long as it was."""
        start, nbytes = segment.file_bytes, slots * segment.head.slot_bytes
        fd = segment.file.fd
        try:
            try:
                os.posix_fallocate(fd, start, nbytes)
            except OSError as error:
                if error.errno not in _NO_PREALLOCATION:
                    raise
            pieces = []
            for at in range(start, start + nbytes, PIECE_BYTES):
                zeros = self._zeros[: min(PIECE_BYTES, start + nbytes - at)]
                pieces.append(Piece(segment.file, at, (zeros,), True))
            faults = self._io.transfer(pieces, deadline_s)
        except OSError as error:
            faults = [fault_of(error, segment.file.path)]
        fault = next((each for each in faults if each is not None), None)
        if fault is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, start)
        return fault

    def late(self) -> bool:
        """Whether the preparation of some segment hangs and may still come to write."""
        return self._io.holds((self._zeros,))

    def recut(self, segment: Segment, head: Head, ready: int) -> Segment:
        """The same file with other slots, `ready` of them, and cut off after those. Raises
        OSError."""
        segment.marks.reset()
        anew = Segment(segment.file, head, self._boot)
        anew.extend(ready)
        _write_head(anew)
        os.ftruncate(segment.file.fd, anew.file_bytes)
        return anew

    def remove(self, segment: Segment) -> None:
        """Unlink and close. Raises OSError if the file is still there. It is emptied before, so
        that its bytes are free even if somebody still holds it."""
        os.ftruncate(segment.file.fd, 0)
        with contextlib.suppress(FileNotFoundError):
            segment.file.path.unlink()
        segment.close()

    def remove_stale(self, path: Path) -> bool:
        """Remove a file that nobody holds; False if somebody does by now. Raises OSError."""
        with self._folder.locked():
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                ours = hold(fd) and still_there(fd, path)
                if ours:
                    path.unlink()
            finally:
                os.close(fd)
        return ours

    def head(self, size: int, slots: int, floor: int) -> Head:
        """The first page of a segment of this store."""
        return Head(size, slots, floor, self._meaning.store, self._meaning.identity)


def forget(segment: Segment, floor: int) -> None:
    """Make all blocks up to the sequence `floor` gone for ever, on disk. Raises OSError."""
    segment.head = segment.head._replace(floor=max(floor, segment.head.floor))
    os.pwrite(segment.file.fd, pack(segment.head), 0)


def shorten(segment: Segment) -> None:
    """End the file after its last slot. Raises OSError."""
    if os.fstat(segment.file.fd).st_size > segment.file_bytes:
        os.ftruncate(segment.file.fd, segment.file_bytes)


def _write_head(segment: Segment) -> None:
    os.pwrite(segment.file.fd, pack(segment.head), 0)
    segment.marks.reset()
