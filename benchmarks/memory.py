"""How fast bytes go into and out of a host arena, beside a plain memcpy of as many.

    python benchmarks/memory.py [--mib 256] [--repeat 5]

Ours copies blocks from pageable memory into the views of an arena, until it is full, and all of
them back into other memory. The others copy the same lengths between ordinary arrays that were
written once before: `np.copyto`, and `ctypes.memmove`, which is memcpy without a check.
`scattered`: the free room lies in pieces of half a block, so each block has two spans. Every byte
that comes back is compared. Rounds are interleaved; a ratio is of one round. What it costs to
find room for a block (allocate, views, free) stands apart.

Ordinary arrays begin 64 bytes into a page here, as torch's do. numpy's large ones begin 16 bytes
into one, and processors of AMD copy up to 512 KiB at less than half speed to an address that is
1 to 31 bytes ahead of its source modulo 4096, whoever copies.
"""

from __future__ import annotations

import argparse
import ctypes
import threading
from collections.abc import Callable, Sequence

import numpy as np
from measure import judged, print_table, spread, timed

from tiermem.runtime.host import HostArena
from tiermem.runtime.stores import Buffer
from tiermem.units import format_bytes

BLOCKS = (64 << 10, 2 << 20, 32 << 20)
GIB = 2**30
Room = Callable[[int], Sequence[Buffer]]
Copy = Callable[[Buffer, Buffer], object]


def ordinary(nbytes: int) -> Buffer:
    """Memory that was written once, 64 bytes into a page."""
    whole = np.ones(nbytes + 4096, dtype=np.uint8)
    first = (64 - whole.ctypes.data) % 4096
    return whole[first : first + nbytes]


def memmove(target: Buffer, source: Buffer) -> None:
    """memcpy as the C library has it."""
    ctypes.memmove(target.ctypes.data, source.ctypes.data, len(target))


def in_and_out(source: Buffer, target: Buffer, block: int, room: Room, copy: Copy) -> float:
    """GiB/s: each block of `source` is copied into room of its own, and back out to `target`."""
    cuts = range(0, len(source), block)
    held = [room(block) for _ in cuts]

    def both() -> None:
        for cut, views in zip(cuts, held, strict=True):
            at = cut
            for view in views:
                copy(view, source[at : at + len(view)])
                at += len(view)
        for cut, views in zip(cuts, held, strict=True):
            at = cut
            for view in views:
                copy(target[at : at + len(view)], view)
                at += len(view)

    seconds = timed(both).wall_s
    assert np.array_equal(source, target), "the bytes came back"
    target[:] = 0
    return 2 * len(source) / GIB / seconds


def arena_room(nbytes: int, block: int, *, scattered: bool) -> tuple[HostArena, Room]:
    """An arena with `nbytes` free, and how to get a block of it."""
    arena = HostArena(nbytes * (2 if scattered else 1))
    if scattered:
        halves = [arena.allocate(block // 2) for _ in range(2 * arena.capacity_bytes // block)]
        for half in halves[::2]:
            assert half is not None
            arena.free(half)

    def room(size: int) -> Sequence[Buffer]:
        extent = arena.allocate(size)
        assert extent is not None
        assert len(extent) == (2 if scattered else 1)
        return arena.views(extent, size)

    return arena, room


def plain_room(middle: Buffer) -> Room:
    """Consecutive parts of an ordinary array."""
    at = 0

    def room(size: int) -> Sequence[Buffer]:
        nonlocal at
        at += size
        return [middle[at - size : at]]

    return room


def one_round(source: Buffer, target: Buffer, middle: Buffer, block: int) -> dict[str, float]:
    """GiB/s of each side, one after the other."""
    rates = {
        "np.copyto": in_and_out(source, target, block, plain_room(middle), np.copyto),
        "memmove": in_and_out(source, target, block, plain_room(middle), memmove),
    }
    for name, scattered in (("arena", False), ("arena, scattered", True)):
        arena, room = arena_room(len(source), block, scattered=scattered)
        rates[name] = in_and_out(source, target, block, room, np.copyto)
        arena.close()
    return rates


def two_threads(source: Buffer, block: int) -> float:
    """The rate of two threads that each fill half of an arena / that of one that fills all."""
    _, room = arena_room(len(source), block, scattered=False)
    parts = [(room(block)[0], source[at : at + block]) for at in range(0, len(source), block)]

    def fill(own: Sequence[tuple[Buffer, Buffer]]) -> None:
        for view, part in own:
            np.copyto(view, part)

    def both() -> None:
        threads = [threading.Thread(target=fill, args=(parts[half::2],)) for half in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return timed(lambda: fill(parts)).wall_s / timed(both).wall_s


def room_us(nbytes: int, block: int) -> float:
    """Microseconds to find room for one block, look at it, and give it back."""
    arena, count = HostArena(nbytes), nbytes // block

    def all_of_it() -> None:
        extents = [arena.allocate(block) or () for _ in range(count)]
        for extent in extents:
            arena.views(extent, block)
        for extent in extents:
            arena.free(extent)

    return timed(all_of_it).wall_s / count * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    nbytes = options.mib << 20
    source, target, middle = ordinary(nbytes), ordinary(nbytes), ordinary(nbytes)
    source[:] = np.random.default_rng(1).integers(0, 256, nbytes, dtype=np.uint8)
    rows = []
    for block in BLOCKS:
        rounds = [one_round(source, target, middle, block) for _ in range(options.repeat)]
        for name in rounds[0]:
            rates = [each[name] for each in rounds]
            ratios = [each[name] / each["np.copyto"] for each in rounds]
            verdict = judged(ratios, at_least=0.9) if name.startswith("arena") else ("", "")
            size = format_bytes(block)
            rows.append([f"{size}, {name}", spread(rates), spread(ratios), *verdict])
    gains = [two_threads(source, 2 << 20) for _ in range(options.repeat)]
    rows.append(["2 MiB, arena: two threads / one", "", spread(gains), "", ""])
    costs = [room_us(nbytes, BLOCKS[0]) for _ in range(options.repeat)]
    rows.append(["64 KiB: allocate, views, free, µs a block", spread(costs), "", "", ""])
    print_table(["in and out", "GiB/s", "/ np.copyto", "target", ""], rows)


if __name__ == "__main__":
    main()
