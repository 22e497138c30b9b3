"""Which files of a directory a store takes over from former processes, and which it passes over.

Every file that is not taken is counted, with the reason in words.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from tiermem.runtime.file import head as heads
from tiermem.runtime.file.builder import Meaning
from tiermem.runtime.file.folder import Folder, file_bytes, hold, still_there
from tiermem.runtime.file.head import HEAD_BYTES
from tiermem.runtime.file.segment import FILE_SLACK_BYTES, Segment
from tiermem.runtime.file.steps import Stale
from tiermem.runtime.io.seam import FileIO


class Ignored(NamedTuple):
    """A file that was passed over, or lost a part."""

    name: str
    reason: str


class Source(NamedTuple):
    """Where to look, and for what."""

    folder: Folder
    io: FileIO
    meaning: Meaning
    boot: bytes


class Found:
    """What a directory held when the store was opened."""

    def __init__(self, source: Source, capacity_bytes: int) -> None:
        self.segments: list[Segment] = []  # ours now
        self.stale: list[Stale] = []  # nobody's, and of no use to us; booked until reclaimed
        self.ignored = [Ignored(name, "not a segment") for name in source.folder.strangers()]
        self.neighbours = 0  # segments that other processes are using
        self.used_bytes = 0  # of both lists
        self._source = source
        self._capacity_bytes = capacity_bytes
        with source.folder.locked():
            for path in sorted(source.folder.segments(), key=_changed, reverse=True):
                self._look_at(path)

    def _look_at(self, path: Path) -> None:
        """Newest first: what is beyond the capacity is removed, whoever wrote it."""
        try:
            nbytes = file_bytes(path) + FILE_SLACK_BYTES
            opened = _open(self._source, path)
        except OSError as error:
            self.ignored.append(Ignored(path.name, (error.strerror or str(error)).lower()))
            return
        if opened is None:
            self.neighbours += 1
            return
        read_only = self._source.folder.read_only
        fits = read_only or self.used_bytes + nbytes <= self._capacity_bytes
        if isinstance(opened, str):
            self.ignored.append(Ignored(path.name, opened))
        elif fits:
            self.segments.append(opened)
        else:
            self.ignored.append(Ignored(path.name, "beyond the capacity, removed"))
        if isinstance(opened, str) and fits and opened != heads.EMPTY:
            self.stale.append(Stale(path, nbytes))
        elif not fits or opened == heads.EMPTY:
            if not read_only:
                with contextlib.suppress(OSError):
                    path.unlink()
            if isinstance(opened, Segment):
                opened.close()
            return
        self.used_bytes += nbytes


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _open(source: Source, path: Path) -> Segment | str | None:
    """The segment, ours from now on; or why it is none for us; or None if somebody has it."""
    read_only = source.folder.read_only
    file = source.io.open(path, read_only=read_only)
    outcome: Segment | str | None = None
    try:
        if read_only or (hold(file.fd) and still_there(file.fd, path)):
            head = heads.parse(os.pread(file.fd, HEAD_BYTES, 0))
            if isinstance(head, str):
                outcome = head
            elif head.store != source.meaning.store:
                outcome = f"made for {head.identity!r}, and this is {source.meaning.identity!r}"
            else:
                outcome = Segment(file, head, source.boot)
    finally:
        if not isinstance(outcome, Segment):
            file.close()
    return outcome
