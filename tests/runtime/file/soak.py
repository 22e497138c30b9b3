"""Threads on one store for a while: writers, readers, clears, deletes and syncs, all bytes checked.

    python tests/runtime/file/soak.py --seconds 600 --seed 1

In the end nothing may have leaked: descriptors, threads, slots; and at no instant did the files
take more than the capacity.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.stores import FaultKind, Item
from tiermem.testing.keyed_stores import bytes_in, content, key

CAPACITY_BYTES = 48 << 20
WRITERS = READERS = 8
NUMBERS = 400
SIZES = (0, 100, 4096, 5000, 65_536, 65_537, 300_000, 1_500_000)
EXPECTED = (FaultKind.MISSING, FaultKind.SPACE)


def size_of(number: int) -> int:
    """Bytes of block `number`: one key, one content, as with keys that are content hashes."""
    return SIZES[number % len(SIZES)]


class Soak:
    """One run."""

    def __init__(self, store: FileStore, seed: int, seconds: float) -> None:
        self.store = store
        self.seed = seed
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self.blocks = [content(number, size_of(number)) for number in range(NUMBERS)]
        self._lock = threading.Lock()

    def run(self) -> None:
        """All threads until the end."""
        works = [(self.write, n) for n in range(WRITERS)] + [(self.read, n) for n in range(READERS)]
        works += [(self.disturb, 0), (self.watch, 0)]
        threads = [
            threading.Thread(target=self._guarded, args=(work, number)) for work, number in works
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, work, number: int) -> None:
        dice = random.Random(f"{self.seed}/{work.__name__}/{number}")
        while time.monotonic() < self.end and not self.mistakes:
            try:
                work(dice)
            except BaseException:
                self.mistakes.append(f"{work.__name__} {number}: {traceback.format_exc()}")

    def _count(self, what: str, answers: list) -> None:
        with self._lock:
            for fault in answers:
                self.counts[what if fault is None else f"{what}: {fault.kind}"] += 1
        wrong = [fault for fault in answers if fault is not None and fault.kind not in EXPECTED]
        assert not wrong, wrong

    def write(self, dice: random.Random) -> None:
        """A batch of blocks; some are not to be kept."""
        numbers = dice.sample(range(NUMBERS), dice.choice((1, 1, 4, 16)))
        items: list[Item] = [(key(n), [self.blocks[n]], size_of(n)) for n in numbers]
        answers = self.store.write(items, keep=dice.random() < 0.8)
        self._count("written", answers)
        if any(fault is not None for fault in answers):
            self.store.delete([key(n) for n in dice.sample(range(NUMBERS), 40)])

    def read(self, dice: random.Random) -> None:
        """A batch of blocks, each equal to what was written."""
        numbers = dice.sample(range(NUMBERS), dice.choice((1, 1, 4, 16)))
        rooms = [np.empty(size_of(n), dtype=np.uint8) for n in numbers]
        answers = self.store.read(
            [(key(n), [room], size_of(n)) for n, room in zip(numbers, rooms, strict=True)]
        )
        for number, room, fault in zip(numbers, rooms, answers, strict=True):
            assert fault is not None or np.array_equal(room, self.blocks[number]), number
        self._count("read", answers)

    def disturb(self, dice: random.Random) -> None:
        """Clears, deletes, syncs, reports."""
        act = dice.random()
        if act < 0.02:
            self.store.clear()
        elif act < 0.3:
            self.store.delete([key(n) for n in dice.sample(range(NUMBERS), 20)])
        elif act < 0.5:
            self._count("synced", [self.store.sync()])
        else:
            assert self.store.report().used_bytes <= CAPACITY_BYTES
        time.sleep(dice.random() * 0.05)

    def watch(self, dice: random.Random) -> None:
        """Bytes on disk, as the file system counts them."""
        total = bytes_in(self.store.directory) or 0
        assert total <= CAPACITY_BYTES, f"{total:,} bytes on disk"
        with self._lock:
            self.counts["walks"] += total > 0
        time.sleep(0.002 + dice.random() * 0.01)


def census() -> tuple[int, int]:
    """Open descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def run(seconds: float, seed: int, folder: Path) -> list[str]:
    """What went wrong."""
    before = census()
    io = PosixIO()
    store = FileStore(folder / "store", CAPACITY_BYTES, io=io, identity="soak")
    soak = Soak(store, seed, seconds)
    soak.run()
    wrong = list(soak.mistakes)
    store.clear()
    report = store.report()
    if report.slots != report.free_slots:
        wrong.append(f"{report.slots - report.free_slots} slots leaked")
    store.close()
    io.close()
    end = time.monotonic() + 10
    while census() != before and time.monotonic() < end:
        time.sleep(0.05)
    if census() != before:
        wrong.append(f"descriptors and threads: {before} before, {census()} after")
    print(f"{seconds:g} s (seed {seed}): {dict(sorted(soak.counts.items()))}", flush=True)
    print(f"dropped {report.dropped}, CPU {report.cpu_s_per_gib:.2f} s/GiB, {len(wrong)} wrong")
    return wrong


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="on the file system to try; default: /tmp")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds + 120, exit=True)  # a hang is loud
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        wrong = run(options.seconds, options.seed, Path(folder))
    for line in wrong:
        print(f"seed {options.seed}: {line}")
    return min(1, len(wrong))


if __name__ == "__main__":
    sys.exit(main())
