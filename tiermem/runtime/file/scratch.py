"""Memory that is the store's own: a page for each header and each last, partial page of a block,
and room for blocks whose buffers do not lie as O_DIRECT wants them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tiermem.runtime.io.seam import PIECE_BYTES
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Buffer

_CHUNK_BYTES = 1 << 20
_KEPT_PIECES = 32


class Scratch:
    """Pages, and pieces of `PIECE_BYTES`, given out and taken back by any thread."""

    def __init__(self, aligned: Callable[[int], Buffer]) -> None:
        self._aligned = aligned
        self._lock = threading.Lock()
        self._pages: list[Buffer] = []
        self._pieces: list[Buffer] = []

    def page(self) -> Buffer:
        """One page; what is in it is anything."""
        with self._lock:
            if not self._pages:
                chunk = self._aligned(_CHUNK_BYTES)
                starts = range(_CHUNK_BYTES - GRANULE_BYTES, -1, -GRANULE_BYTES)
                self._pages = [chunk[start : start + GRANULE_BYTES] for start in starts]
            return self._pages.pop()

    def piece(self) -> Buffer:
        """As many bytes as one piece may carry."""
        with self._lock:
            if self._pieces:
                return self._pieces.pop()
        return self._aligned(PIECE_BYTES)

    def give(self, buffers: Iterable[Buffer]) -> None:
        """Take back whole pages and pieces. What a late transfer may still touch is never given
        back."""
        with self._lock:
            for buffer in buffers:
                if len(buffer) == GRANULE_BYTES:
                    self._pages.append(buffer)
                elif len(self._pieces) < _KEPT_PIECES:
                    self._pieces.append(buffer)
