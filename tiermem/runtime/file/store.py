"""The file store: blocks on NVMe by key, in segments that are found again after any kill.

*staged*: copied to memory of the store's own, where the caller's buffers do not lie as the device
wants them. *written*: the write call has returned. *durable*: a grouped fdatasync came after it,
and the slot's mark is set. After kill -9 exactly the durable blocks are served again, whole; what
was only written is gone. See docs/decisions/0013.

Any number of threads may call. One lock guards the index and the free slots, and no transfer
happens under it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from tiermem.runtime.file.cuts import Block, windows
from tiermem.runtime.file.folder import removed_fault
from tiermem.runtime.file.helping import Hands
from tiermem.runtime.file.opening import Wish, open_directory
from tiermem.runtime.file.plan import SEGMENT_BYTES, plan, status_bytes
from tiermem.runtime.file.report import FileReport, Tally, why_cold
from tiermem.runtime.file.segment import Segment
from tiermem.runtime.file.syncing import Syncer
from tiermem.runtime.file.transfers import Shop, Transfers
from tiermem.runtime.io.seam import FileIO, closed, fault_of
from tiermem.runtime.stores import Fault, FaultKind, Item

Answer = Fault | None
_READ_ONLY = Fault(FaultKind.PERMISSION, "this file store was opened for reading only")
_CLOSED = Fault(FaultKind.CLOSED, "the file store is closed")


class FileStore:
    """See `KeyedStore`. The capacity is per process and per directory, and it is hard: segments,
    marks and temporaries never take more. `identity` says what the blocks mean (model, type,
    layout, codec); those of another identity are never read. `block_bytes` is the size of blocks
    that `usable_bytes` speaks of."""

    name = "nvme"
    kind = "file"
    deadline_s = 30.0  # of one batch of transfers, one sync
    settle_s = 0.5  # after so long what was written becomes durable unasked

    def __init__(
        self,
        directory: str | Path,
        capacity_bytes: int,
        *,
        io: FileIO | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        identity: str = "",
        read_only: bool = False,
        block_bytes: int = 64 << 10,
    ) -> None:
        """Raises InputError if the directory cannot be used, DoesNotFit if the capacity is more
        than the file system has. `io` is the way to the files, proved and chosen if not given."""
        self.capacity_bytes = capacity_bytes
        self.directory = Path(directory)
        self._block_bytes = block_bytes
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._closed = False
        self._tally = Tally()
        shape = plan(capacity_bytes - status_bytes(capacity_bytes), segment_bytes)
        wish = Wish(self.directory, shape, identity, read_only, self.deadline_s, capacity_bytes)
        self._opened = open_directory(wish, io, self._lock, self._tally)
        self._index, self._room = self._opened.blocks, self._opened.room
        shop = Shop(
            self._opened.io,
            self._room,
            self._index,
            self._opened.scratch,
            self._tally,
        )
        self._transfers = Transfers(shop, self._lock)
        self._cleared: set[Segment] = set()  # to be synced although nothing new is in them
        self._hands = Hands()
        self._syncer = Syncer(self._settle, self.settle_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def usable_bytes(self) -> int:
        """What blocks of `block_bytes` may be charged in all. Where sizes are mixed it may be less:
        a block that finds no slot is a fault."""
        return self._room.plan.usable_bytes(self._block_bytes)

    def __len__(self) -> int:
        with self._lock:
            return len(self._index.slots)

    def __contains__(self, key: bytes) -> bool:
        with self._lock:
            return key in self._index.slots

    def keys(self) -> list[tuple[bytes, int]]:
        """See `KeyedStore`."""
        with self._lock:
            return [(key, slot.nbytes) for key, slot in self._index.slots.items()]

    def write(self, items: Sequence[Item], *, keep: bool = True) -> list[Answer]:
        """See `KeyedStore`. A key that is there is replaced; its old block is served after a kill
        until the new one is durable."""
        if self._opened.folder.read_only:
            return self._refused(_READ_ONLY, len(items))
        return self._in_windows("written", items, lambda window: self._written(window, keep))

    def read(self, items: Sequence[Item]) -> list[Answer]:
        """See `KeyedStore`. Every byte is checked. After a `timeout` the I/O path may hold on to
        the buffers (`FileIO.holds`): until it does not, they are nobody else's."""
        return self._in_windows(
            "read", items, lambda window: self._transfers.read(window, self.deadline_s)
        )

    def _written(self, window: Sequence[Block], keep: bool) -> list[Answer]:
        answers = self._transfers.write(window, keep, self.deadline_s)
        full = any(fault is not None and fault.kind is FaultKind.SPACE for fault in answers)
        with self._lock:
            waiting = full and any(slot.older for slot in self._index.fresh)
        if waiting and self.sync() is None:  # blocks that were replaced give their slots back
            again = [at for at, fault in enumerate(answers) if fault is not None]
            retried = self._transfers.write([window[at] for at in again], keep, self.deadline_s)
            for at, answer in zip(again, retried, strict=True):
                answers[at] = answer
        if keep:
            self._syncer.soon()
        return answers

    def _in_windows(
        self, flow: str, items: Sequence[Item], move: Callable[[Sequence[Block]], list[Answer]]
    ) -> list[Answer]:
        """`move` all items, a window at a time; time and count them."""
        started = time.perf_counter()
        with self._lock:
            if self._closed:
                return [_CLOSED] * len(items)
            self._calls += 1
        try:
            with self._tally.busy():
                answers = self._hands.overlapped(windows(items), move)
        finally:
            with self._lock:
                self._calls -= 1
                self._idle.notify_all()
        nbytes = sum([item[2] for item, fault in zip(items, answers, strict=True) if not fault])
        faults = [fault for fault in answers if fault is not None]
        elapsed = time.perf_counter() - started
        self._tally.flow(flow, len(answers) - len(faults), nbytes, elapsed)
        if faults:
            self._tally.fault(faults)
        return answers

    def delete(self, keys: Iterable[bytes]) -> None:
        """See `KeyedStore`."""
        with self._lock:
            self._index.drop(keys)

    def clear(self) -> None:
        """See `KeyedStore`. On return what was there does not come back, not even after a power
        cut. A write that is under way may end before or after it."""
        with self._lock:
            if self._closed or self._opened.folder.read_only:
                return
            floor = self._index.stamp()
            self._index.clear(floor)
            faults = self._room.unmark()
        faults += self._room.forget(floor)
        with self._lock:
            self._cleared.update(self._room.segments)
        self._tally.fault(faults)
        self.sync()

    def sync(self) -> Answer:
        """See `KeyedStore`; or why it is not durable. What was to become so is then dropped. So are
        all blocks of a file that somebody deleted; a directory may be moved meanwhile."""
        fault = self._syncer.now(self.deadline_s)
        if fault is not None:
            self._tally.fault([fault])
        return fault

    def _settle(self) -> Answer:
        """One round of the syncer."""
        started = time.perf_counter()
        with self._lock:
            slots = list(self._index.fresh)
            wanted = {slot.segment for slot in slots}
            segments = wanted | self._cleared
            self._cleared = set()
            every = segments.union(() if self._opened.folder.read_only else self._room.segments)
        failed: dict[Segment, Fault] = {}
        for segment in segments:
            if segment.file.hold():
                try:
                    os.fdatasync(segment.file.fd)
                except OSError as error:
                    failed[segment] = fault_of(error, segment.file.path)
                finally:
                    segment.file.let_go()
            elif segment in wanted:
                failed[segment] = closed(segment.file.path)
        removed = {each: fault for each in every if (fault := removed_fault(each.file)) is not None}
        with self._lock:
            lost = [self._index.drop_slot(slot) for slot in slots if slot.segment in failed]
            for slot in self._index.drop_segments(removed) if removed else ():
                failed.setdefault(slot.segment, removed[slot.segment])
                lost.append(1)
            for segment in removed:
                self._room.abandon(segment)
            durable = self._index.settle(slots)
        if durable:
            nbytes = sum(slot.nbytes for slot in durable)
            self._tally.flow("durable", len(durable), nbytes, time.perf_counter() - started)
        if lost:
            self._tally.fault((), sum(lost))
        self._room.let_go()
        return next(iter(failed.values()), None)

    def report(self) -> FileReport:
        """Everything that was counted and timed so far."""
        opened, tally, room = self._opened, self._tally, self._room
        with self._lock:
            segments = list(room.segments)
            used_bytes, blocks = room.used_bytes, len(self._index.slots)
        return FileReport(
            directory=str(self.directory),
            io_path=str(opened.io.path),
            identity=opened.meaning.identity,
            read_only=opened.folder.read_only,
            capacity_bytes=self.capacity_bytes,
            usable_bytes=self.usable_bytes,
            used_bytes=used_bytes,
            directory_bytes=opened.folder.disk_bytes(),
            segments=len(segments),
            neighbours=opened.neighbours,
            slots=sum(segment.ready for segment in segments),
            free_slots=sum(segment.free_slots for segment in segments),
            blocks=blocks,
            found_blocks=opened.found_blocks,
            ignored=opened.ignored,
            cold=why_cold(opened.found_blocks, opened.ignored),
            **tally.flows,
            dropped=tally.dropped,
            faults=dict(tally.faults),
            last_fault=tally.last_fault,
            cpu_s_per_gib=tally.cpu_s_per_gib(),
        )

    def close(self) -> None:
        """Wait for calls under way, make everything durable, let the directory go; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._idle.wait_for(lambda: not self._calls, self.deadline_s)
        if not self._opened.folder.read_only:
            self.sync()
        self._syncer.close(self.deadline_s)
        self._hands.close()
        self._room.close()
        self._opened.folder.close()
        if self._opened.own_io:
            self._opened.io.close()

    def _refused(self, fault: Fault, count: int) -> list[Answer]:
        self._tally.fault([fault] * count)
        return [fault] * count
