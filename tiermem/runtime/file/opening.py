"""Opening a directory as a store: check it, take over what is there, and see what room is left."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

from tiermem.errors import DoesNotFit
from tiermem.runtime.file.adopting import Found, Ignored, Source
from tiermem.runtime.file.builder import Builder, Meaning, meaning_of
from tiermem.runtime.file.folder import Folder, file_bytes
from tiermem.runtime.file.index import Index
from tiermem.runtime.file.marks import boot_name
from tiermem.runtime.file.plan import Plan
from tiermem.runtime.file.reading import Contents, Reader
from tiermem.runtime.file.report import Tally
from tiermem.runtime.file.room import Room
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.segment import FILE_SLACK_BYTES, Slot
from tiermem.runtime.io.choose import choose
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.seam import FileIO, fault_of


class Wish(NamedTuple):
    """What is to be opened, and how."""

    directory: Path
    plan: Plan
    identity: str
    read_only: bool
    deadline_s: float
    capacity_bytes: int  # as it was given, the status file's part included


class Opened(NamedTuple):
    """The parts of a store whose directory was taken over."""

    folder: Folder
    io: FileIO
    own_io: bool  # made here, to be closed here
    room: Room
    blocks: Index
    scratch: Scratch
    meaning: Meaning
    ignored: tuple[Ignored, ...]
    neighbours: int
    found_blocks: int


def open_directory(wish: Wish, io: FileIO | None, lock: threading.Lock, tally: Tally) -> Opened:
    """Raises InputError if the directory cannot be used, DoesNotFit if the capacity is more than
    the file system has."""
    folder = Folder(wish.directory, read_only=wish.read_only)
    try:  # before any proof: of the files that are there at most all are taken over
        _check_capacity(wish, folder, sum(map(_bytes_of, folder.segments())))
    except DoesNotFit:
        folder.close()
        raise
    own_io = io is None and folder.read_only
    io = io or _chosen(folder)
    boot = boot_name()
    meaning = meaning_of(wish.identity)
    found = Found(Source(folder, io, meaning, boot), wish.plan.capacity_bytes)
    try:
        _check_capacity(wish, folder, found.used_bytes)
    except DoesNotFit:
        for segment in found.segments:
            segment.close()
        folder.close()
        raise

    def release(slot: Slot) -> None:
        room.give(slot.segment, slot.number)

    index = Index(release, lambda error: tally.fault([fault_of(error, folder.path)]))
    builder = Builder(folder, io, meaning, boot)
    room = Room(wish.plan, builder, lock, lambda: index.newest)
    scratch = Scratch(io.aligned)
    room.stale += found.stale
    room.used_bytes += sum(stale.nbytes for stale in found.stale)
    slots: list[Slot] = []
    for segment in found.segments:
        reader = Reader(io, scratch, meaning.store, wish.deadline_s)
        index.newest = max(index.newest, segment.head.floor)
        try:
            contents = Contents(reader, segment, read_only=wish.read_only)
        except OSError as error:
            found.ignored.append(Ignored(segment.file.path.name, str(error)))
            room.lost.append(segment)
            room.used_bytes += segment.file_bytes + FILE_SLACK_BYTES
            continue
        if contents.lost:
            reason = f"truncated: {contents.lost} blocks lost"
            found.ignored.append(Ignored(segment.file.path.name, reason))
        tally.fault(contents.faults, len(contents.faults) + contents.lost)
        slots += contents.slots
        room.add(segment)
        room.used_bytes += segment.file_bytes + FILE_SLACK_BYTES
    for slot in sorted(slots, key=lambda each: each.sequence):
        index.adopt(slot)
    return Opened(
        folder,
        io,
        own_io,
        room,
        index,
        scratch,
        meaning,
        tuple(found.ignored),
        found.neighbours,
        len(index.slots),
    )


def _chosen(folder: Folder) -> FileIO:
    """The path that was proved here; where nothing may be written, one that needs no proof."""
    return PosixIO(direct=False) if folder.read_only else choose(folder.path).io


def _bytes_of(path: Path) -> int:
    try:
        return file_bytes(path) + FILE_SLACK_BYTES
    except OSError:  # another process removed it meanwhile
        return 0


def _check_capacity(wish: Wish, folder: Folder, used_bytes: int) -> None:
    if wish.read_only:
        return
    capacity, free = wish.capacity_bytes, folder.free_bytes()
    where = f"{folder.path}: a capacity of {capacity:,} bytes (per process, per directory)"
    if not wish.plan.usable_bytes(1):
        raise DoesNotFit(f"{where} holds no block: give it at least 64 KiB")
    if capacity - used_bytes > free:
        taken = f", beside {used_bytes:,} that its segments have" if used_bytes else ""
        raise DoesNotFit(
            f"{where} is more than the {free:,} bytes that its file system has free{taken}"
        )
