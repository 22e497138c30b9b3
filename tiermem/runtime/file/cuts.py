"""A block's buffers, cut into units that can be moved and summed.

O_DIRECT wants whole, aligned pages. Buffers that lie like that are used where they are, without a
copy, except for a last page that the block does not fill. Others are staged: copied to or from
memory that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from typing import NamedTuple, TypeAlias

from tiermem.runtime.file.slot import KEY_BYTES, unit_bytes
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Buffer, Item

WINDOW_BLOCKS = 256
"""Blocks that are moved at once; their objects die young, and the next ones are made meanwhile."""

WINDOW_STAGED_BYTES = 64 << 20


class Unit(NamedTuple):
    """Up to a piece of one block: `nbytes` of it, in `parts`."""

    parts: tuple[Buffer, ...]
    nbytes: int
    straight: bool  # the parts can be moved as they lie, but for the last, partial page


class Cut(NamedTuple):
    """One block in units."""

    units: tuple[Unit, ...]
    staged_bytes: int


Shape: TypeAlias = Buffer | Cut
"""A block of one unit that needs no staging is its buffer; any other is cut."""


class Block(NamedTuple):
    """One block that is to be moved."""

    key: bytes
    nbytes: int
    shape: Shape


def windows(items: Sequence[Item]) -> Iterator[list[Block]]:
    """As many blocks as are moved at once, each cut: scratch memory is bounded."""
    window: list[Block] = []
    staged_bytes = 0
    for key, buffers, nbytes in items:
        assert len(key) == KEY_BYTES, f"a key has {KEY_BYTES} bytes"
        shape = cut(buffers, nbytes)
        window.append(Block(key, nbytes, shape))
        if isinstance(shape, Cut):
            staged_bytes += shape.staged_bytes
        if len(window) == WINDOW_BLOCKS or staged_bytes >= WINDOW_STAGED_BYTES:
            yield window
            window, staged_bytes = [], 0
    if window:
        yield window


def cut(buffers: Sequence[Buffer], nbytes: int) -> Shape:
    """The first `nbytes` of `buffers`."""
    size = unit_bytes(nbytes)
    if len(buffers) == 1 and 0 < nbytes <= size and not nbytes % GRANULE_BYTES:
        first = buffers[0]
        if len(first) >= nbytes and not address(first) % GRANULE_BYTES:
            return first if len(first) == nbytes else first[:nbytes]
    units = []
    spans = _spans(buffers, nbytes, size)
    for at in range(0, max(nbytes, 1), size):
        parts = spans.get(at // size, [])
        units.append(Unit(tuple(parts), min(size, nbytes - at), _straight(parts)))
    return Cut(tuple(units), sum(unit.nbytes for unit in units if not unit.straight))


def address(buffer: Buffer) -> int:
    """Where the buffer lies; four times as quick as asking numpy, which is half of the work of a
    small block."""
    try:
        return addressof(c_char.from_buffer(buffer))  # type: ignore[arg-type]  # Python 3.12 has it
    except (TypeError, ValueError):  # it is read-only, or empty
        return int(buffer.ctypes.data)


def _spans(buffers: Sequence[Buffer], nbytes: int, size: int) -> dict[int, list[Buffer]]:
    """Views of the buffers by unit."""
    spans: dict[int, list[Buffer]] = {}
    done = 0
    for buffer in buffers:
        at = 0
        while at < len(buffer) and done < nbytes:
            length = min(len(buffer) - at, nbytes - done, size - done % size)
            spans.setdefault(done // size, []).append(buffer[at : at + length])
            at += length
            done += length
    assert done == nbytes, "fewer bytes in the buffers than the block has"
    return spans


def _straight(parts: Sequence[Buffer]) -> bool:
    whole = all(len(part) % GRANULE_BYTES == 0 for part in parts[:-1])
    return whole and all(address(part) % GRANULE_BYTES == 0 for part in parts)
