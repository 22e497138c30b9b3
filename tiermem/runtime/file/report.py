"""What a file store counted and timed, and what it tells about itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tiermem.runtime.file.adopting import Ignored
from tiermem.runtime.stores import Fault

_GIB = 1 << 30


class Flow(NamedTuple):
    """Blocks that took one step, their bytes, and the seconds that the calls took in all (calls
    at the same time count each)."""

    blocks: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by seconds; None before anything was moved."""
        return self.nbytes / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class FileReport:
    """A file store at one moment. The capacity is this process's, in this directory."""

    directory: str
    io_path: str
    identity: str
    read_only: bool
    capacity_bytes: int
    usable_bytes: int
    used_bytes: int  # booked by this process: files, marks, temporaries
    directory_bytes: int | None  # on disk, of all processes and files; None if it is gone
    segments: int
    neighbours: int  # segments of other processes, seen at open
    slots: int
    free_slots: int
    blocks: int
    found_blocks: int  # at open
    ignored: tuple[Ignored, ...]
    cold: str | None  # why nothing was found at open
    staged: Flow  # copied to or from memory of the store's own
    written: Flow
    durable: Flow
    read: Flow
    dropped: int  # blocks that a fault made unreadable
    faults: Mapping[str, int]
    last_fault: str
    cpu_s_per_gib: float | None  # of the whole process while the store was at work: an upper bound


class Tally:
    """The counters behind a report; any thread may count."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.dropped = 0
        self.last_fault = ""
        self.flows = {name: Flow() for name in ("staged", "written", "durable", "read")}
        self._lock = threading.Lock()
        self._busy = 0
        self._cpu_started = 0.0
        self._cpu_s = 0.0

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While the store is at work: the CPU seconds of that time are its own, at most."""
        with self._lock:
            if not self._busy:
                self._cpu_started = time.process_time()
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    self._cpu_s += time.process_time() - self._cpu_started

    def flow(self, name: str, blocks: int, nbytes: int, seconds: float) -> None:
        """So much took the step `name`."""
        with self._lock:
            before = self.flows[name]
            self.flows[name] = Flow(
                before.blocks + blocks, before.nbytes + nbytes, before.seconds + seconds
            )

    def fault(self, faults: Iterable[Fault], dropped: int = 0) -> None:
        """These faults were met, and so many blocks were lost to them."""
        with self._lock:
            for fault in faults:
                self.faults[fault.kind] += 1
                self.last_fault = fault.detail
            self.dropped += dropped

    def cpu_s_per_gib(self) -> float | None:
        """CPU seconds for each GiB written or read; None before the first byte."""
        with self._lock:
            nbytes = self.flows["written"].nbytes + self.flows["read"].nbytes
            return self._cpu_s * _GIB / nbytes if nbytes else None


def why_cold(found_blocks: int, ignored: Iterable[Ignored]) -> str | None:
    """A sentence for a store that begins with nothing; None if it does not."""
    if found_blocks:
        return None
    reasons = Counter(each.reason for each in ignored)
    if not reasons:
        return "cold: no earlier blocks here"
    total, files = sum(reasons.values()), "file" if sum(reasons.values()) == 1 else "files"
    listed = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"cold: {total} {files} ignored: {listed}"
