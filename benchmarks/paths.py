"""The I/O paths alone, without a store: which one is right for which size of block.

    python benchmarks/paths.py DIR [--rounds 7] [--only posix_direct native kvikio]

Host memory, over space written before, no checksums; the paths take turns. What cannot be had in
DIR is left out, with the reason. Scattered blocks have gaps between them, in a random order.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from pathlib import Path
from statistics import median

import numpy as np
from measure import print_table, spread

from tiermem.runtime.io import paths, seam
from tiermem.runtime.io.proving import prove
from tiermem.runtime.io.seam import PIECE_BYTES, FileIO, IoPath, OpenFile, Piece

FILE_BYTES = 256 << 20
# name: bytes of a block, blocks of one batch, whether they are scattered
SHAPES = {
    "64 KiB scattered, 1 a batch": (64 << 10, 1, True),
    "64 KiB scattered, 8 a batch": (64 << 10, 8, True),
    "64 KiB scattered, 64 a batch": (64 << 10, 64, True),
    "64 KiB scattered, 1024 a batch": (64 << 10, 1024, True),
    "64 KiB neighbours, 1024 a batch": (64 << 10, 1024, False),
    "2 MiB, 1 a batch": (2 << 20, 1, True),
    "2 MiB, 64 a batch": (2 << 20, 64, False),
    "32 MiB, 1 a batch": (32 << 20, 1, False),
    "32 MiB, 4 a batch": (32 << 20, 4, False),
}
BLOCKS_MOST = 1024


def batches(
    file: OpenFile, memory: seam.Buffer, shape: tuple[int, int, bool], *, write: bool, seed: int
) -> list[list[Piece]]:
    """The file in batches of this shape, each block cut into pieces."""
    size, batch, scattered = shape
    places = list(range(0, FILE_BYTES, size * (2 if scattered else 1)))
    if scattered:
        random.Random(seed).shuffle(places)
    found = []
    for at in range(0, min(len(places), BLOCKS_MOST, 64 * batch), batch):
        found.append(
            [
                Piece(file, start, (memory[start : start + min(size, PIECE_BYTES)],), write)
                for place in places[at : at + batch]
                for start in range(place, place + size, min(size, PIECE_BYTES))
            ]
        )
    return found


def run(io: FileIO, work: list[list[Piece]]) -> tuple[float, float, int]:
    """Seconds, seconds of processor and bytes."""
    wall, core = time.perf_counter(), time.process_time()
    for pieces in work:
        assert not any(io.transfer(pieces, 120))
    wall, core = time.perf_counter() - wall, time.process_time() - core
    return wall, core, sum(piece.nbytes for pieces in work for piece in pieces)


def usable(directory: Path, wanted: list[str]) -> list[IoPath]:
    """Those of `wanted` that prove themselves in `directory`."""
    found = []
    for path in map(IoPath, wanted):
        missing = "" if paths.installed(path) else f"{paths.MODULES[path]} is not installed"
        reason = missing or prove(directory, path).reason
        if reason:
            print(f"{path} is left out: {reason}")
        else:
            found.append(path)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=["posix_direct", "native", "kvikio"])
    options = parser.parse_args()
    name = options.directory / f"tiermem-paths-{os.getpid()}"
    found = usable(options.directory, options.only)
    ios = {path: paths.make(path) for path in found}
    source, target = seam.aligned(FILE_BYTES), seam.aligned(FILE_BYTES)
    source[:] = np.resize(np.frombuffer(os.urandom(1 << 20), dtype=np.uint8), FILE_BYTES)
    target[:] = 0
    rows = []
    try:
        name.touch()
        files = {path: io.open(name) for path, io in ios.items()}
        for path, file in files.items():
            run(ios[path], batches(file, source, SHAPES["2 MiB, 64 a batch"], write=True, seed=0))
        os.sync()
        for shape_name, shape in SHAPES.items():
            runs: dict[tuple[IoPath, bool], list[tuple[float, float, int]]] = {}
            for number in range(options.rounds):
                for path, io in ios.items():
                    for write, memory in ((True, source), (False, target)):
                        work = batches(files[path], memory, shape, write=write, seed=number)
                        runs.setdefault((path, write), []).append(run(io, work))
                        if not write:
                            one = work[0][0]
                            place = slice(one.offset, one.offset + one.nbytes)
                            assert np.array_equal(source[place], target[place])
            for path in ios:
                cells = [shape_name, path]
                for write in (True, False):
                    each = runs[path, write]
                    blocks = each[0][2] / shape[0]
                    cells.append(spread((wall / blocks * 1e6 for wall, _, _ in each), 0))
                    cells.append(f"{median(core / n * 2**30 for _, core, n in each):.2f}")
                rows.append(cells)
    finally:
        name.unlink()
        for io in ios.values():
            io.close()
    head = ("blocks", "path", "write us/block", "CPU s/GiB", "read us/block", "CPU s/GiB")
    print_table(head, rows)


if __name__ == "__main__":
    main()
