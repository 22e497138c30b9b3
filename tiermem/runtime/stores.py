"""What holds the bytes of a tier: memory that is given out in spans, or files that are keyed.

A fault is a value. Nothing in a store raises for what a device may do: it says what failed, and
whoever asked counts a miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Buffer: TypeAlias = npt.NDArray[np.uint8]
"""Bytes in host memory: one dimension, contiguous."""


class Span(NamedTuple):
    """Contiguous bytes of an arena."""

    offset: int
    nbytes: int


Extent: TypeAlias = tuple[Span, ...]
"""Where one block lies: its spans, in order."""


class FaultKind(StrEnum):
    """What can go wrong with bytes on their way."""

    IO = "io"  # the device or the kernel refused
    SHORT = "short"  # fewer bytes than asked for
    SPACE = "space"  # no room left
    CHECKSUM = "checksum"  # the bytes are not those that were written
    HEADER = "header"  # the slot does not describe this block
    MISSING = "missing"  # no such block here
    PERMISSION = "permission"
    TIMEOUT = "timeout"  # not done by its deadline
    CLOSED = "closed"  # the store was closed meanwhile


class Fault(NamedTuple):
    """One transfer that failed, with a line for a person."""

    kind: FaultKind
    detail: str


Item: TypeAlias = tuple[bytes, Sequence[Buffer], int]
"""One block to write or to read: its key, its bytes (or room for them), and how many they are."""


class MemoryStore(Protocol):
    """Memory of one tier: a fixed amount of it, given out in whole granules."""

    name: str
    kind: str
    capacity_bytes: int

    @property
    def used_bytes(self) -> int:
        """Bytes that are given out."""
        ...

    def allocate(self, nbytes: int) -> Extent | None:
        """Room for `nbytes`: one span where possible, several where the free room is scattered;
        None when there is not that much."""
        ...

    def free(self, extent: Extent) -> None:
        """Take back what `allocate` gave."""
        ...

    def views(self, extent: Extent, nbytes: int) -> list[Buffer]:
        """The first `nbytes` of `extent`, writable, without a copy."""
        ...

    def close(self) -> None:
        """Give the memory back to the system."""
        ...


class KeyedStore(Protocol):
    """Files of one tier: blocks by key, checked on every read."""

    name: str
    kind: str
    capacity_bytes: int

    @property
    def usable_bytes(self) -> int:
        """Bytes of blocks that fit, headers taken off."""
        ...

    def write(self, items: Sequence[Item], *, keep: bool = True) -> list[Fault | None]:
        """Write each block; those without a fault are *written* on return. `keep`: serve them
        after a restart too."""
        ...

    def read(self, items: Sequence[Item]) -> list[Fault | None]:
        """Fill each block's buffers; after a fault their content means nothing."""
        ...

    def delete(self, keys: Iterable[bytes]) -> None:
        """Forget these blocks; unknown keys are ignored."""
        ...

    def clear(self) -> None:
        """Forget every block."""
        ...

    def sync(self) -> Fault | None:
        """On return everything written before the call is *durable*; or dropped, and why."""
        ...

    def keys(self) -> list[tuple[bytes, int]]:
        """Each readable block and its bytes, least recently written first."""
        ...

    def close(self) -> None:
        """Finish, and let the directory go."""
        ...


Store: TypeAlias = MemoryStore | KeyedStore
