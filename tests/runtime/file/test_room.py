"""Room: booked before it is taken, in the cheapest way there is, and never above the capacity."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from tiermem.runtime.file.builder import Builder
from tiermem.runtime.file.folder import Folder, file_bytes
from tiermem.runtime.file.plan import plan
from tiermem.runtime.file.room import Room, fixed_bytes
from tiermem.runtime.file.segment import Segment
from tiermem.runtime.file.slot import slot_bytes
from tiermem.runtime.file.steps import Stale
from tiermem.runtime.stores import Fault, FaultKind

KIB, MIB = 1 << 10, 1 << 20
SMALL, LARGE = slot_bytes(64 * KIB), slot_bytes(2 * MIB)


@pytest.fixture
def room(builder: Builder) -> Room:
    """Twelve MiB in an empty directory."""
    return Room(plan(12 * MIB, 256 * MIB), builder, threading.Lock(), lambda: 77)


def fill(room: Room, size: int) -> list[tuple[Segment, int]]:
    """Take slots until there is no room."""
    taken = []
    while room.grow(size, 1, 10.0) is None:
        place = room.take(size)
        assert place is not None
        taken.append(place)
    return taken


def on_disk(folder: Folder) -> int:
    return sum(file_bytes(path) for path in folder.segments())


def test_nothing_is_made_before_it_is_needed(room: Room, folder: Folder) -> None:
    """An empty store is an empty directory."""
    assert room.take(SMALL) is None
    assert folder.segments() == []


def test_all_of_the_capacity_and_not_more(room: Room, folder: Folder) -> None:
    """As many slots as were promised, each once; files within what was booked."""
    taken = fill(room, SMALL)
    assert len(taken) * 64 * KIB == room.plan.usable_bytes(64 * KIB)
    assert len({(segment.file.path, number) for segment, number in taken}) == len(taken)
    assert on_disk(folder) <= room.used_bytes <= 12 * MIB
    fault = room.grow(SMALL, 1, 10.0)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.SPACE


def test_slots_that_came_back_are_used_first(room: Room) -> None:
    """Without growing."""
    taken = fill(room, SMALL)
    room.give(*taken[7])
    assert room.grow(SMALL, 1, 10.0) is None
    assert room.take(SMALL) == taken[7]


def test_a_free_segment_is_cut_anew(room: Room, folder: Folder) -> None:
    """When the capacity is used up: its slots get another size, and its old blocks never count
    again."""
    for place in fill(room, SMALL):
        room.give(*place)
    files = len(folder.segments())
    assert room.grow(LARGE, 1, 10.0) is None
    place = room.take(LARGE)
    assert place is not None
    assert place[0].head.slot_bytes == LARGE
    assert place[0].head.floor == 77
    assert len(folder.segments()) == files
    assert on_disk(folder) <= room.used_bytes <= 12 * MIB


def test_a_free_segment_that_is_too_small_makes_way(room: Room, folder: Folder) -> None:
    """Slots larger than any file there is: files go until a new one fits."""
    for place in fill(room, SMALL):
        room.give(*place)
    huge = slot_bytes(10 * MIB)
    assert room.grow(huge, 1, 10.0) is None
    assert room.take(huge) is not None
    assert on_disk(folder) <= room.used_bytes <= 12 * MIB


def test_a_segment_in_use_is_left_alone(room: Room) -> None:
    """One block at its end is enough to keep it."""
    taken = fill(room, SMALL)
    last = {segment: (segment, number) for segment, number in taken}
    for place in set(taken) - set(last.values()):
        room.give(*place)
    assert isinstance(room.grow(LARGE, 1, 10.0), Fault)


def test_free_slots_at_the_end_of_other_segments_make_way(room: Room, folder: Folder) -> None:
    """No more of them than it takes; and not one where all together are too few."""
    taken = fill(room, SMALL)
    for segment, number in taken:
        if number >= 10:
            room.give(segment, number)
    before = sum(segment.ready for segment in room.segments)
    assert isinstance(room.grow(slot_bytes(30 * MIB), 1, 10.0), Fault)
    assert sum(segment.ready for segment in room.segments) == before
    assert room.grow(LARGE, 1, 10.0) is None
    assert room.take(LARGE) is not None
    after = sum(segment.ready for segment in room.segments if segment.head.slot_bytes == SMALL)
    assert 1 * MIB < (before - after) * SMALL < 3 * MIB
    assert on_disk(folder) <= room.used_bytes <= 12 * MIB


def test_files_of_no_use_are_reclaimed_last(room: Room, folder: Folder) -> None:
    """They count as long as they are there, and go when their room is needed."""
    path = folder.new_path()
    path.write_bytes(b"x" * 4 * MIB)
    room.stale.append(Stale(path, 4 * MIB))
    room.used_bytes += 4 * MIB
    assert room.grow(SMALL, 1, 10.0) is None
    assert path.exists()
    fill(room, SMALL)
    assert not path.exists()
    assert on_disk(folder) <= room.used_bytes <= 12 * MIB


def test_a_file_somebody_took_is_not_ours_any_more(room: Room, folder: Folder) -> None:
    """Another process adopted it: it stays, and counts for that process."""
    path = folder.new_path()
    path.write_bytes(b"x" * 4096)
    room.stale.append(Stale(path, 11 * MIB))
    room.used_bytes += 11 * MIB
    with path.open("rb+") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert room.grow(LARGE, 1, 10.0) is None
    assert path.exists()


def test_no_room_on_the_device_gives_the_booking_back(
    room: Room, monkeypatch: pytest.MonkeyPatch, folder: Folder
) -> None:
    """ENOSPC while a segment is made: a fault, no file, and nothing booked."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    fault = room.grow(SMALL, 1, 10.0)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.SPACE
    assert (room.used_bytes, folder.segments()) == (0, [])
    monkeypatch.undo()
    assert room.grow(SMALL, 1, 10.0) is None
    ready = room.segments[0].ready
    assert room.used_bytes == fixed_bytes(room.plan.slots(SMALL)) + ready * SMALL
    monkeypatch.setattr("os.posix_fallocate", full)
    for _ in range(ready):
        room.take(SMALL)
    assert isinstance(room.grow(SMALL, 1, 10.0), Fault)
    assert room.used_bytes == fixed_bytes(room.plan.slots(SMALL)) + ready * SMALL


def test_a_file_that_cannot_be_removed_stays_booked(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission was lost midway: the capacity holds all the same."""
    for place in fill(room, SMALL):
        room.give(*place)
    used = room.used_bytes

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    fault = room.grow(slot_bytes(10 * MIB), 1, 10.0)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PERMISSION
    assert room.used_bytes == used
    assert len(room.lost) == 1
    room.close()
