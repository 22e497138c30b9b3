"""The file store beside what else there is, in the same run. Host tiers: `memory.py`.

    python benchmarks/storage.py DIR [--rounds 5] [--only NAME ...] [--sizes 65536 2097152 33554432]

Every contender writes the same bytes over space that it has written before, until they are durable,
and reads them back cold (direct, or dropped from the page cache); what it read is compared. The
contenders take turns, another one first in each round, so that a slow moment of the machine hits
all of them. A contender that is not installed is skipped, with the reason. Nothing is left in DIR.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from measure import print_table, spread
from storage_direct import DeepSpeed, LMCacheFiles, LMCacheRaw, Nixl, fio
from storage_peers import Absent, Accelerate, Buffer, Contender, Memmap, Safetensors, TorchSave

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io import paths, seam
from tiermem.runtime.io.directory import mount_of
from tiermem.runtime.io.seam import IoPath

TOTAL = {64 << 10: 32 << 20, 2 << 20: 256 << 20, 32 << 20: 256 << 20}
ROOM = 4 << 30


class Ours(Contender):
    """`FileStore`, checksums on, over one I/O path."""

    path = IoPath.POSIX_DIRECT

    def start(self) -> None:
        """A store with room for a second copy: a rewrite goes to other slots."""
        if not paths.installed(self.path):
            raise Absent(f"{paths.MODULES[self.path]} is not installed")
        self.io = paths.make(self.path)
        self.store = FileStore(self.folder, ROOM, io=self.io, block_bytes=self.size)
        self.keys = [number.to_bytes(16, "little") for number in range(self.count)]

    def _items(self, blocks: Sequence[Buffer]) -> list[tuple[bytes, list[Buffer], int]]:
        return [(key, [block], self.size) for key, block in zip(self.keys, blocks, strict=True)]

    def write(self, blocks: Sequence[Buffer]) -> None:
        """Written, then durable."""
        faults = [fault for fault in self.store.write(self._items(blocks)) if fault]
        assert not faults, faults[0]
        self.store.sync()

    def read(self, blocks: Sequence[Buffer]) -> None:
        """Every byte checked."""
        faults = [fault for fault in self.store.read(self._items(blocks)) if fault]
        assert not faults, faults[0]

    def close(self) -> None:
        """The path is ours alone."""
        self.store.close()
        self.io.close()


def ours(path: IoPath) -> type[Ours]:
    """Our store over this path."""
    return type(f"Ours_{path}", (Ours,), {"path": path})


CONTENDERS: dict[str, type[Contender]] = {
    "tiermem, posix_direct": ours(IoPath.POSIX_DIRECT),
    "tiermem, native": ours(IoPath.NATIVE),
    "fio libaio, depth 8": fio("libaio", 8),
    "fio libaio, depth 64": fio("libaio", 64),
    "fio io_uring, depth 8": fio("io_uring", 8),
    "fio io_uring, depth 64": fio("io_uring", 64),
    "LMCache RawBlockCore": LMCacheRaw,
    "LMCache fs_native": LMCacheFiles,
    "NIXL POSIX io_uring": Nixl,
    "DeepSpeed async_io": DeepSpeed,
    "safetensors": Safetensors,
    "torch.save": TorchSave,
    "numpy memmap": Memmap,
    "accelerate": Accelerate,
}


class Run(NamedTuple):
    """One timed call: seconds, and seconds of processor."""

    wall_s: float
    core_s: float


def timed(contender: Contender, call: Callable[[], None]) -> Run:
    """One call; fio's own clock for fio, whose start is not counted."""
    wall, core = time.perf_counter(), time.process_time()
    call()
    run = Run(time.perf_counter() - wall, time.process_time() - core)
    return run if contender.checked else Run(contender.wall_s, contender.core_s)  # type: ignore[attr-defined]


def blocks_of(size: int, count: int, seed: int | None) -> list[Buffer]:
    """Page-aligned memory, filled with noise or with nothing."""
    memory = seam.aligned(size * count)
    memory[:] = 0
    if seed is not None:
        noise = np.random.default_rng(seed).integers(0, 256, 1 << 20, dtype=np.uint8)
        memory[:] = np.resize(noise, memory.size)
        memory.reshape(-1, 4096)[:, :8] = np.arange(memory.size // 4096)[:, None].view(np.uint8)
    return [memory[at : at + size] for at in range(0, size * count, size)]


def compete(directory: Path, size: int, rounds: int, names: Sequence[str]) -> None:
    """One size of block: every contender, `rounds` times each, in turn."""
    count = TOTAL.get(size, 64 << 20) // size
    source, target = blocks_of(size, count, 1), blocks_of(size, count, None)
    running: dict[str, Contender] = {}
    for name in names:
        folder = directory / f"{len(running)}"
        try:
            running[name] = CONTENDERS[name](folder, size, count)
        except Absent as reason:
            print(f"{name} is left out: {reason}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    runs: dict[tuple[str, str], list[Run]] = {}
    try:
        for number in range(
            rounds + 2
        ):  # twice to write all space once, for stores with two copies
            turns = list(running.items())
            turns = turns[number % len(turns) :] + turns[: number % len(turns)]
            for name, contender in turns:
                contender.before_write()
                wrote = timed(contender, lambda it=contender: it.write(source))
                contender.forget()
                read = timed(contender, lambda it=contender: it.read(target))
                if contender.checked:
                    same = all(map(np.array_equal, source, target))
                    assert same, f"{name} read other bytes than it wrote"
                    for block in target:
                        block[::4096] = 0
                if number >= 2:
                    runs.setdefault((name, "write"), []).append(wrote)
                    runs.setdefault((name, "read"), []).append(read)
    finally:
        for contender in running.values():
            contender.close()
            shutil.rmtree(contender.folder, ignore_errors=True)
    tell(size, count, list(running), runs)


def best_fio(names: Sequence[str], runs: dict[tuple[str, str], list[Run]], kind: str) -> str | None:
    """The fio whose median is the best: one of four lucky runs is nobody's speed."""
    found = [name for name in names if name.startswith("fio")]
    return min(found, key=lambda name: median(run.wall_s for run in runs[name, kind]), default=None)


def tell(
    size: int, count: int, names: Sequence[str], runs: dict[tuple[str, str], list[Run]]
) -> None:
    """The table of one size: speed, its ratio to the best fio in the same round, processor time."""
    best = {kind: best_fio(names, runs, kind) for kind in ("write", "read")}
    rows, nbytes = [], size * count
    for name in names:
        row = [name]
        for kind in ("write", "read"):
            found, top = runs[name, kind], best[kind]
            row.append(spread(nbytes / run.wall_s / 1e9 for run in found))
            pairs = zip(runs[top, kind], found, strict=True) if top is not None else ()
            row.append(spread(other.wall_s / run.wall_s for other, run in pairs) if top else "-")
            row.append(f"{median(run.wall_s for run in found) / count * 1e6:,.0f}")
            row.append(f"{median(run.core_s for run in found) / nbytes * 2**30:.2f}")
        rows.append(row)
    print(f"\n{count} blocks of {size:,} bytes; best fio: {best}\n")
    columns = ("GB/s", "/ best fio", "us/block", "CPU s/GiB")
    head = ["", *(f"{kind} {what}" for kind in ("write", "read") for what in columns)]
    print_table(head, rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(TOTAL))
    options = parser.parse_args()
    place = options.directory / f"tiermem-benchmark-{os.getpid()}"
    place.mkdir()
    print(f"{mount_of(place)}; {options.rounds} rounds; median (least - greatest)\n")
    try:
        for size in options.sizes:
            compete(place, size, options.rounds, options.only)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
