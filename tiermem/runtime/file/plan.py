"""How large segments are, and what of a capacity is left for blocks."""

from __future__ import annotations

from typing import NamedTuple

from tiermem.runtime.file.head import start_of
from tiermem.runtime.file.segment import FILE_SLACK_BYTES
from tiermem.runtime.file.slot import slot_bytes
from tiermem.runtime.sizes import charged_bytes

SEGMENT_BYTES_LEAST, SEGMENT_BYTES = 4 << 20, 256 << 20
STEP_BYTES_LEAST, STEP_BYTES = 1 << 20, 64 << 20
"""Slots are prepared so many bytes at a time: many sizes with a few blocks each do not use up the
capacity, and nobody waits long."""

_STEPS_LEAST = 256
_SEGMENTS_WANTED, _SEGMENTS_MOST = 16, 256  # of a full store; the most is for its descriptors


class Plan(NamedTuple):
    """The shape of all segments of one store."""

    capacity_bytes: int
    segment_bytes: int

    @property
    def least_bytes(self) -> int:
        """What is prepared, or given up, at once at least."""
        return min(STEP_BYTES_LEAST, self.capacity_bytes // _STEPS_LEAST)

    def slots(self, size: int) -> int:
        """Planned slots of a segment of slots of `size` bytes."""
        return max(1, self.segment_bytes // size)

    def step(self, size: int, ready: int, wanted: int) -> int:
        """How many slots of a class are prepared at once: as many as it has, or as are wanted."""
        least, most = self.least_bytes // size, STEP_BYTES // size
        return max(1, min(max(least, ready, wanted), most))

    def usable_bytes(self, nbytes: int) -> int:
        """What blocks of `nbytes` each may be charged in all, if there are no others."""
        size = slot_bytes(nbytes)
        planned = self.slots(size)
        whole = start_of(planned) + FILE_SLACK_BYTES + planned * size
        segments, left = divmod(self.capacity_bytes, whole)
        rest = max(0, left - start_of(planned) - FILE_SLACK_BYTES) // size
        return (segments * planned + rest) * charged_bytes(nbytes)


def status_bytes(capacity_bytes: int) -> int:
    """What of a capacity is left to the status file of the directory, and its draft."""
    return min(64 << 10, capacity_bytes >> 6)


def plan(capacity_bytes: int, segment_bytes: int) -> Plan:
    """Segments of about a sixteenth of the capacity, within bounds; in a large store larger ones,
    since each keeps files open."""
    wanted = min(max(capacity_bytes // _SEGMENTS_WANTED, SEGMENT_BYTES_LEAST), segment_bytes)
    return Plan(capacity_bytes, max(wanted, capacity_bytes // _SEGMENTS_MOST))
