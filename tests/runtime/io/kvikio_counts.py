"""Run by test_kvikio.py under the stub driver: kvikio's own reads and writes, counted.

    python kvikio_counts.py DIR

Prints one JSON line a size: how many calls kvikio's `CuFile` had, and whether the bytes came back.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import kvikio
import numpy as np

from tiermem.runtime.io import seam
from tiermem.runtime.io.kvikio import KvikioIO
from tiermem.runtime.io.seam import PIECE_BYTES, Piece

SIZES = (1, 511, 512, 513, 4095, 4096, 4097, 65536, 1 << 20, 8_388_609, 32 << 20)
calls: Counter[str] = Counter()


def counted(name: str) -> None:
    """Count the calls of `CuFile.name`."""
    whole = getattr(kvikio.CuFile, name)

    def call(*arguments: Any, **options: Any) -> Any:
        calls[name] += 1
        return whole(*arguments, **options)

    setattr(kvikio.CuFile, name, call)


def raw(path: Path, data: seam.Buffer) -> bool:
    """kvikio alone, any size."""
    path.touch()
    with kvikio.CuFile(path, "r+") as file:
        assert file.write(data) == data.size
        back = np.zeros_like(data)
        assert file.read(back) == data.size
    return bool(np.array_equal(back, data)) and path.read_bytes() == data.tobytes()


def through(io: KvikioIO, path: Path, data: seam.Buffer) -> bool:
    """Our seam over it: padded to whole pages, cut into pieces."""
    file = io.open(path, create=True)
    source, target = io.aligned(data.size), io.aligned(data.size)
    source[: data.size] = data
    for memory, write in ((source, True), (target, False)):
        pieces = [
            Piece(file, at, (memory[at : at + PIECE_BYTES],), write)
            for at in range(0, memory.size, PIECE_BYTES)
        ]
        assert io.transfer(pieces, 60) == [None] * len(pieces)
    file.close()
    right = path.read_bytes()[: data.size] == data.tobytes()
    return right and bool(np.array_equal(target[: data.size], data))


def main(directory: Path) -> None:
    """Each size, alone and through the seam."""
    counted("pread")
    counted("pwrite")
    io = KvikioIO()
    for size in SIZES:
        data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        for name, same in (
            ("raw", lambda data=data: raw(directory / f"raw{data.size}", data)),
            ("seam", lambda data=data: through(io, directory / f"seam{data.size}", data)),
        ):
            calls.clear()
            equal = same()
            line = {"size": size, "by": name, "equal": equal, **calls}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
