"""One file of equal slots, and the slot that holds one block.

Nothing here locks; the store does.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from tiermem.runtime.file.head import Head
from tiermem.runtime.file.marks import Marks
from tiermem.runtime.file.slot import Header
from tiermem.runtime.io.seam import OpenFile

FILE_SLACK_BYTES = 16 << 10
"""What a file system may keep beside a file's bytes and count as the file's (extent blocks)."""


class State(Enum):
    """A slot's life, in this order."""

    WRITING = "writing"
    FRESH = "fresh"  # written, served, and lost in a kill
    DURABLE = "durable"  # marked
    GONE = "gone"  # not served; free again when its last reader has ended


class Segment:
    """An open file whose slots are all of `head.slot_bytes`."""

    def __init__(self, file: OpenFile, head: Head, boot: bytes) -> None:
        self.file = file
        self.head = head
        self.marks = Marks(file.fd, head.slots, boot)
        self._start, self._slot_bytes = head.start, head.slot_bytes
        self.ready = 0  # slots that were written once, so that a write to them is cheap
        self.used = 0
        self.full_grown = False  # no more slots are prepared, whatever was planned
        self.removed = False  # somebody deleted the file: nothing of it is used any more
        self._free: list[int] = []  # the next one last

    def __repr__(self) -> str:
        return f"<{self.file.path.name}: {self.used} of {self.ready} slots>"

    @property
    def file_bytes(self) -> int:
        """Length of the file, as far as it was prepared."""
        return self.head.start + self.ready * self.head.slot_bytes

    @property
    def plannable_slots(self) -> int:
        """How many more may be prepared."""
        return 0 if self.full_grown else self.head.slots - self.ready

    @property
    def has_room(self) -> bool:
        """Whether `take` finds a slot."""
        return bool(self._free)

    @property
    def free_slots(self) -> int:
        """How many `take` would find."""
        return len(self._free)

    def offset(self, number: int) -> int:
        """Where slot `number` is."""
        return self._start + number * self._slot_bytes

    def extend(self, slots: int) -> None:
        """So many more were prepared."""
        self._free[:0] = range(self.ready + slots - 1, self.ready - 1, -1)
        self.ready += slots

    def take(self) -> int:
        """A free slot: neighbours one after the other, since those are written in one go."""
        self.used += 1
        return self._free.pop()

    def populate(self, ready: int, taken: Collection[int]) -> None:
        """The file was found with `ready` slots, of which these hold blocks."""
        self.ready, self.used = ready, len(taken)
        self._free = [number for number in range(ready - 1, -1, -1) if number not in taken]

    def free_tail(self) -> int:
        """How many slots at the end are free."""
        free, slots = set(self._free), 0
        while self.ready - 1 - slots in free:
            slots += 1
        return slots

    def cut_off(self, slots: int) -> None:
        """The last `slots`, which are free, are no more."""
        self.ready -= slots
        self._free = [number for number in self._free if number < self.ready]

    def give(self, number: int) -> None:
        """The slot is free again."""
        self.used -= 1
        self._free.append(number)

    def close(self) -> None:
        """Let the file, and with it the lock on it, go."""
        self.file.close()


class Slot:
    """Where one block lies."""

    __slots__ = (
        "keep",
        "key",
        "marked",
        "nbytes",
        "number",
        "older",
        "readers",
        "segment",
        "sequence",
        "state",
    )

    def __init__(
        self, segment: Segment, number: int, key: bytes, nbytes: int, sequence: int, keep: bool
    ) -> None:
        self.segment = segment
        self.number = number
        self.key = key
        self.nbytes = nbytes
        self.sequence = sequence
        self.keep = keep
        self.state = State.WRITING
        self.marked = False
        self.readers = 0
        self.older: Slot | None = None  # durable, of the same key: stays until this one is, too

    def header(self) -> Header:
        """What the slot says of itself on disk."""
        head = self.segment.head
        return Header(
            head.store,
            self.key,
            self.nbytes,
            self.sequence,
            head.slot_bytes,
            self.number,
            self.keep,
        )
