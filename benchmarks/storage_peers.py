"""Contenders of `storage.py` that keep files through the page cache, and what a contender is.

A contender that is not installed says so when it is made (`Absent`). Every one works in a folder
of its own, over space it has written before, from and into memory that is there already.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiermem.runtime.io import pagecache

Buffer = np.ndarray


class Absent(Exception):
    """This contender cannot run here, and why."""


class Contender(ABC):
    """`count` blocks of `size` bytes in `folder`. `write` ends when they are durable."""

    checked = True  # whether `read` fills our memory, so that it can be compared

    def __init__(self, folder: Path, size: int, count: int) -> None:
        self.folder, self.size, self.count = folder, size, count
        folder.mkdir(parents=True)
        self.start()

    def start(self) -> None:  # noqa: B027 - optional
        """Open what has to be open; raise `Absent`."""

    def before_write(self) -> None:  # noqa: B027 - optional
        """What a rewrite needs and is not timed."""

    @abstractmethod
    def write(self, blocks: Sequence[Buffer]) -> None:
        """Store every block and make it durable."""

    @abstractmethod
    def read(self, blocks: Sequence[Buffer]) -> None:
        """Fill every block."""

    def close(self) -> None:  # noqa: B027 - optional
        """Let go of everything."""

    def forget(self) -> None:
        """Nothing of this contender's files stays in the page cache. Not timed."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDWR)
                pagecache.drop(fd)
                os.close(fd)


class Files(Contender):
    """A file for each block, by two functions of a library."""

    def paths(self) -> list[Path]:
        """One for each block."""
        return [self.folder / f"{number}.bin" for number in range(self.count)]

    def durable(self) -> None:
        """fsync of each file: what these libraries leave to their users."""
        for path in self.paths():
            fd = os.open(path, os.O_RDWR)
            os.fdatasync(fd)
            os.close(fd)


@contextlib.contextmanager
def needed() -> Iterator[None]:
    """Whatever keeps a library from loading is `Absent`."""
    try:
        yield
    except (ImportError, OSError, RuntimeError, AttributeError, SystemExit) as error:
        words = " ".join(str(error).split())[:120]
        raise Absent(words or type(error).__name__) from error


class TorchSave(Files):
    """torch.save and torch.load."""

    def start(self) -> None:
        with needed():
            import torch
        self.torch = torch

    def write(self, blocks: Sequence[Buffer]) -> None:
        for path, block in zip(self.paths(), blocks, strict=True):
            self.torch.save(self.torch.from_numpy(block), path)
        self.durable()

    def read(self, blocks: Sequence[Buffer]) -> None:
        for path, block in zip(self.paths(), blocks, strict=True):
            block[:] = self.torch.load(path).numpy()


class Safetensors(Files):
    """safetensors.numpy, one tensor a file."""

    def start(self) -> None:
        with needed():
            import safetensors.numpy as library
        self.library = library

    def write(self, blocks: Sequence[Buffer]) -> None:
        for path, block in zip(self.paths(), blocks, strict=True):
            self.library.save_file({"a": block}, path)
        self.durable()

    def read(self, blocks: Sequence[Buffer]) -> None:
        for path, block in zip(self.paths(), blocks, strict=True):
            block[:] = self.library.load_file(path)["a"]


class Accelerate(Files):
    """accelerate's disk offload."""

    def start(self) -> None:
        with needed():
            import accelerate.utils.offload as library
            import torch
        self.library, self.torch = library, torch

    def paths(self) -> list[Path]:
        return [self.folder / f"{number}.dat" for number in range(self.count)]

    def write(self, blocks: Sequence[Buffer]) -> None:
        self.index: dict[str, Any] = {}
        for number, block in enumerate(blocks):
            weight = self.torch.from_numpy(block)
            self.library.offload_weight(weight, str(number), str(self.folder), self.index)
        self.durable()

    def read(self, blocks: Sequence[Buffer]) -> None:
        for number, block in enumerate(blocks):
            path = str(self.folder / f"{number}.dat")
            block[:] = self.library.load_offloaded_weight(path, self.index[str(number)]).numpy()


class Memmap(Contender):
    """One NumPy memmap over all blocks."""

    def start(self) -> None:
        shape = (self.count, self.size)
        self.map = np.memmap(self.folder / "a", dtype=np.uint8, mode="w+", shape=shape)

    def write(self, blocks: Sequence[Buffer]) -> None:
        for row, block in zip(self.map, blocks, strict=True):
            row[:] = block
        self.map.flush()

    def forget(self) -> None:
        """Mapped pages stay, so the mapping is made anew."""
        shape = self.map.shape
        del self.map
        super().forget()
        self.map = np.memmap(self.folder / "a", dtype=np.uint8, mode="r+", shape=shape)

    def read(self, blocks: Sequence[Buffer]) -> None:
        for row, block in zip(self.map, blocks, strict=True):
            block[:] = row
