"""The room of a store: its segments, which of their slots are free, and how there come to be more.

Slots come from, in this order: free ones of their class; a segment of the class that is not yet
prepared to its planned length; a new segment; a wholly free segment of another class, cut anew, or
removed where it is too small; files of former processes that cannot be read; free slots at the
end of segments of other classes. Bytes are booked
before they are taken and given back after they have gone, so the files never take more than the
capacity.

Slots are taken and given under the store's lock; `grow` does its I/O outside of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tiermem.runtime.file.builder import Builder, forget, shorten
from tiermem.runtime.file.head import start_of
from tiermem.runtime.file.plan import Plan
from tiermem.runtime.file.segment import FILE_SLACK_BYTES, Segment
from tiermem.runtime.file.steps import Create, Extend, Recut, Shorten, Stale, Step
from tiermem.runtime.io.seam import fault_of
from tiermem.runtime.stores import Fault, FaultKind


class Room:
    """All segments of one store."""

    def __init__(
        self, plan: Plan, builder: Builder, lock: threading.Lock, newest: Callable[[], int]
    ) -> None:
        """`newest`: the last sequence that was given out."""
        self.plan = plan
        self.segments: list[Segment] = []
        self.stale: list[Stale] = []
        self.used_bytes = 0  # booked
        self.lost: list[Segment] = []  # could neither be used nor removed; booked
        self._removed: list[Segment] = []  # deleted by others, and not closed yet
        self._builder = builder
        self._lock = lock
        self._newest = newest
        self._growing = threading.Lock()
        self._open: dict[int, list[Segment]] = {}  # by slot size: those with free slots
        self._late_bytes = 0  # booked for files that are gone but for a transfer that hangs

    def take(self, size: int) -> tuple[Segment, int] | None:
        """A free slot of `size` bytes."""
        segments = self._open.get(size)
        if not segments:
            return None
        segment = segments[-1]
        number = segment.take()
        if not segment.has_room:
            segments.pop()
        return segment, number

    def give(self, segment: Segment, number: int) -> None:
        """The slot is free again."""
        had_room = segment.has_room
        segment.give(number)
        self._opened(segment, had_room)

    def add(self, segment: Segment) -> None:
        """A segment whose bytes are booked."""
        self.segments.append(segment)
        self._opened(segment, False)

    def _opened(self, segment: Segment, had_room: bool) -> None:
        if segment.has_room and not had_room and not segment.removed:
            self._open.setdefault(segment.head.slot_bytes, []).append(segment)

    def unmark(self) -> list[Fault]:
        """No block of any segment is served after a kill."""
        return _each(self.segments, lambda segment: segment.marks.reset())

    def forget(self, floor: int) -> list[Fault]:
        """No block up to the sequence `floor` comes back, not even where marks are not believed."""
        with self._growing:
            with self._lock:
                segments = list(self.segments)
            return _each(segments, lambda segment: forget(segment, floor))

    def close(self) -> None:
        """Let all files go."""
        with self._growing:
            for segment in [*self.segments, *self.lost, *self._removed]:
                segment.close()

    def abandon(self, segment: Segment) -> None:
        """Its file was deleted by others: no slot of it is given out again."""
        if segment in self.segments:
            self._withdraw(segment)
            segment.removed = True
            self.used_bytes -= segment.file_bytes + FILE_SLACK_BYTES
            self._removed.append(segment)

    def let_go(self) -> None:
        """Close deleted files that hold no slot any more, unless somebody is at work on files."""
        if self._growing.acquire(blocking=False):
            try:
                self._close_removed()
            finally:
                self._growing.release()

    def _close_removed(self) -> None:
        with self._lock:
            idle = [segment for segment in self._removed if not segment.used]
            self._removed = [segment for segment in self._removed if segment.used]
        for segment in idle:
            segment.close()

    def grow(self, size: int, wanted: int, deadline_s: float) -> Fault | None:
        """See that there are free slots of `size` bytes, `wanted` of them if it can be."""
        with self._growing:
            self._close_removed()
            while True:
                with self._lock:
                    if self._open.get(size):
                        return None
                    step = self._next(size, wanted)
                if isinstance(step, Fault):
                    return step
                try:
                    fault = self._do(step, size, deadline_s)
                except OSError as error:
                    fault = fault_of(error, self._builder.directory)
                if fault is not None:
                    return fault

    def _next(self, size: int, wanted: int) -> Step | Fault:
        """What gives slots of `size` bytes at the least cost; its bytes are booked."""
        if self._late_bytes and not self._builder.late():
            self.used_bytes -= self._late_bytes
            self._late_bytes = 0
        left = self.plan.capacity_bytes - self.used_bytes
        same = [segment for segment in self.segments if segment.head.slot_bytes == size]
        wanted = self.plan.step(size, sum(segment.ready for segment in same), wanted)
        for segment in same:
            slots = min(wanted, segment.plannable_slots, left // size)
            if slots > 0:
                self.used_bytes += slots * size
                return Extend(segment, slots)
        fixed = fixed_bytes(self.plan.slots(size))
        slots = min(wanted, self.plan.slots(size), (left - fixed) // size)
        if slots > 0:
            self.used_bytes += fixed + slots * size
            return Create(slots)
        for segment in sorted(self.segments, key=lambda each: each.file_bytes, reverse=True):
            if not segment.used:
                self._withdraw(segment)
                return Recut(segment)
        if self.stale:
            return self.stale.pop(0)
        missing = max(fixed + size - left, self.plan.least_bytes)
        tails = [(each, each.free_tail()) for each in self.segments if each not in same]
        if sum(slots * each.head.slot_bytes for each, slots in tails) >= missing:
            segment, slots = max(tails, key=lambda tail: tail[0].head.slot_bytes * tail[1])
            slots = min(slots, -(-missing // segment.head.slot_bytes))
            self._cut_off(segment, slots)
            return Shorten(segment, slots)
        return Fault(FaultKind.SPACE, f"no free slot of {size:,} bytes, and no room for one")

    def _cut_off(self, segment: Segment, slots: int) -> None:
        """Nobody takes these slots any more; their bytes stay booked."""
        segment.cut_off(slots)
        if not segment.has_room:
            self._open[segment.head.slot_bytes].remove(segment)

    def _withdraw(self, segment: Segment) -> None:
        """Nobody takes slots of it any more; its bytes stay booked."""
        self.segments.remove(segment)
        if segment.has_room:
            self._open[segment.head.slot_bytes].remove(segment)

    def _do(self, step: Step, size: int, deadline_s: float) -> Fault | None:
        """Carry out one step. May raise OSError, and then the bytes of a file that may still be
        there stay booked."""
        match step:
            case Extend(segment, slots):
                return self._extend(segment, slots, deadline_s)
            case Create(slots):
                return self._create(size, slots, deadline_s)
            case Recut(segment):
                self._recut(segment, size)
            case Shorten(segment, slots):
                shorten(segment)
                self._unbook(slots * segment.head.slot_bytes)
            case Stale(path, nbytes):
                self._builder.remove_stale(path)
                self._unbook(nbytes)
        return None

    def _extend(self, segment: Segment, slots: int, deadline_s: float) -> Fault | None:
        fault = self._builder.prepare(segment, slots, deadline_s)
        with self._lock:
            if segment.removed:
                self.used_bytes -= slots * segment.head.slot_bytes
            elif fault is None:
                had_room = segment.has_room
                segment.extend(slots)
                self._opened(segment, had_room)
            elif fault.kind is FaultKind.TIMEOUT:
                segment.full_grown = True  # zeros may still come to where its next slots would be
            else:
                self.used_bytes -= slots * segment.head.slot_bytes
        return fault

    def _create(self, size: int, slots: int, deadline_s: float) -> Fault | None:
        planned = self.plan.slots(size)
        nbytes = fixed_bytes(planned) + slots * size
        try:
            segment = self._builder.create(size, planned)
        except OSError:
            self._unbook(nbytes)
            raise
        fault = self._builder.prepare(segment, slots, deadline_s)
        if fault is not None:
            self._discard(segment, nbytes, late=fault.kind is FaultKind.TIMEOUT)
            return fault
        with self._lock:
            segment.extend(slots)
            self.add(segment)
        return None

    def _recut(self, segment: Segment, size: int) -> None:
        held = segment.file_bytes
        planned = max(self.plan.slots(size), held // size)
        ready = min(planned, (held - start_of(planned)) // size)
        if ready <= 0:
            self._discard(segment, held + FILE_SLACK_BYTES)
            return
        try:
            head = self._builder.head(size, planned, self._newest())
            anew = self._builder.recut(segment, head, ready)
        except OSError:
            self.lost.append(segment)
            raise
        with self._lock:
            self.used_bytes -= held - anew.file_bytes
            self.add(anew)

    def _discard(self, segment: Segment, nbytes: int, *, late: bool = False) -> None:
        """Remove a segment that nobody uses. Its bytes stay booked while a transfer to it hangs,
        or the file is still there."""
        try:
            self._builder.remove(segment)
        except OSError:
            self.lost.append(segment)
            raise
        with self._lock:
            if late:
                self._late_bytes += nbytes
            else:
                self.used_bytes -= nbytes

    def _unbook(self, nbytes: int) -> None:
        with self._lock:
            self.used_bytes -= nbytes


def _each(segments: Iterable[Segment], act: Callable[[Segment], None]) -> list[Fault]:
    faults = []
    for segment in segments:
        try:
            act(segment)
        except OSError as error:
            faults.append(fault_of(error, segment.file.path))
    return faults


def fixed_bytes(slots: int) -> int:
    """What a segment of `slots` takes beside its slots."""
    return start_of(slots) + FILE_SLACK_BYTES
