"""KV cache in blocks: the longest stored prefix of a prompt out of a memory, new blocks into it.

A prefix may be larger than the memory's fastest tier: it is leased in windows that fit, the last
one first, so that the head of a prefix is what was used most recently and leaves last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from tiermem.errors import Denied, DoesNotFit, TimedOut
from tiermem.offload import views
from tiermem.offload.keys import KvLayout
from tiermem.offload.layout import Layout
from tiermem.offload.memory import TieredMemory
from tiermem.runtime.grants import Grant
from tiermem.runtime.sizes import charged_bytes

Tensor: TypeAlias = Any


@dataclass(slots=True)
class BlockCounts:
    """What became of blocks since the start.

    lost        were known to be stored and did not come: a miss, computed again
    unstored    had no room, or none in time, or were no numbers that the codec takes
    """

    loaded: int = 0
    stored: int = 0
    lost: int = 0
    unstored: int = 0


class Prefixes:
    """Blocks of one layout in one memory. Any number of threads may have one of their own."""

    def __init__(self, memory: TieredMemory, layout: KvLayout) -> None:
        self.counts = BlockCounts()
        self._layout = layout
        self._runtime = memory.runtime
        self._codec = memory.codec
        self._exact = Layout(getattr(torch, layout.dtype), layout.shape)
        self._nbytes = self._exact.nbytes
        if self._codec is not None:
            self._nbytes = self._codec.nbytes(self._exact.count, self._exact.dtype)
        charge, room = charged_bytes(self._nbytes), memory.fastest_bytes
        if charge > room:
            raise DoesNotFit(
                f"a block of {layout.block_tokens} tokens takes {charge:,} bytes and the fastest "
                f"tier has {room:,}: give it more, or TieredCache fewer block_tokens"
            )
        self._window = max(1, room // 2 // charge)  # the other half is for what others hold

    def fetch(self, keys: Sequence[bytes], device: Any = "cpu") -> Tensor:
        """KV of the leading blocks that are stored: [layers, 2, 1, kv_heads, tokens, head_dim] in
        memory of its own on `device`, with 0 tokens where there is none."""
        keys = keys[: self._runtime.known(keys)]
        layers, two, heads, block_tokens, head_dim = self._layout.shape
        shape = (layers, two, 1, heads, len(keys) * block_tokens, head_dim)
        kv = torch.empty(shape, dtype=self._exact.dtype, device=device)
        good = len(keys)
        for start, blocks in self._windows(keys):
            ready = 0
            with self._leased(blocks) as grant:
                if grant is not None:
                    ready = grant.ready_blocks
                    for index, block in enumerate(blocks[:ready], start):
                        at = slice(index * block_tokens, (index + 1) * block_tokens)
                        kv[:, :, 0, :, at].copy_(self._decoded(grant.views(block)))
            if ready < len(blocks):
                good = start + ready
        self.counts.loaded += good
        self.counts.lost += len(keys) - good
        return kv[..., : good * block_tokens, :]

    def store(self, keys: Sequence[bytes], start: int, block: Callable[[int], Tensor]) -> None:
        """Put the blocks from `start` on into the memory, as far as it has room; `block(index)` is
        the KV of one, of the layout's shape. Those that are there already are left alone."""
        for first, blocks in self._windows(keys[start:]):
            with self._leased(blocks) as grant:
                if grant is None:
                    self.counts.unstored += len(blocks)
                    continue
                missing = [index for index, each in enumerate(blocks) if each in grant.missing]
                made = [self._encoded(block(start + first + index)) for index in missing]
                if any(each is None for each in made):
                    self.counts.unstored += len(missing)
                    continue
                for index, data in zip(missing, made, strict=True):
                    views.write(grant.views(blocks[index]), data)
                if missing:
                    grant.commit()
                self.counts.stored += len(missing)

    def _windows(self, keys: Sequence[bytes]) -> Iterator[tuple[int, list[int]]]:
        """(index of the first key, blocks) of each window, the last one first."""
        for start in reversed(range(0, len(keys), self._window)):
            window = keys[start : start + self._window]
            yield start, [self._runtime.block(key, self._nbytes) for key in window]

    @contextmanager
    def _leased(self, blocks: Sequence[int]) -> Iterator[Grant | None]:
        """The grant of these blocks, or None when the memory has no room for them in time."""
        try:
            grant = self._runtime.acquire(blocks)
        except (Denied, TimedOut):
            yield None
            return
        with grant:
            yield grant

    def _encoded(self, kv: Tensor) -> Tensor | None:
        """What is stored of a block; None when the codec cannot store it."""
        if self._codec is None:
            return kv
        return self._codec.encode(kv) if self._codec.takes(kv) else None

    def _decoded(self, held: Sequence[Any]) -> Tensor:
        if self._codec is None:
            return views.opened(held, self._exact)
        data = views.opened(held, Layout(torch.uint8, (self._nbytes,)))
        kv = torch.empty(self._exact.shape, dtype=self._exact.dtype, device=data.device)
        self._codec.decode(data, kv)
        return kv
