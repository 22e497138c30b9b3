"""Activations in tiered memory: what autograd saves for the backward is kept there meanwhile.

Each tensor comes back with its bits and its strides, so that gradients are the same bit by bit, and
is freed with the graph that saved it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from tiermem.offload.layout import dense_part
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TieredTensor

Tensor: TypeAlias = Any

SMALL_BYTES = 64 << 10
"""A tensor below this stays where it is: moving it costs more than it frees."""


class Kept:
    """One saved tensor: where its elements are, and the strides that it had."""

    __slots__ = ("__weakref__", "_shape", "_storage", "_strides", "handle")

    def __init__(
        self, handle: TieredTensor, tensor: Tensor, strides: tuple[int, ...] | None
    ) -> None:
        self.handle = handle
        self._shape = tuple(tensor.shape)
        self._strides = strides
        # While a weak reference to a storage is held no other one has its identity.
        self._storage = StorageWeakRef(tensor.untyped_storage())

    def load(self) -> Tensor:
        """The tensor again, in memory of its own."""
        tensor = self.handle.load()
        return tensor if self._strides is None else tensor.as_strided(self._shape, self._strides)


class Saved:
    """What became of the tensors that autograd saved: `offloaded`, `shared` (saved before, by
    another operator) or `left` where they were."""

    def __init__(self, memory: TieredMemory, min_bytes: int) -> None:
        self._memory = memory
        self._min_bytes = min_bytes
        self._kept: WeakValueDictionary[Any, Kept] = WeakValueDictionary()
        self.offloaded = self.shared = self.left = 0
        self.offloaded_bytes = 0

    def pack(self, tensor: Tensor) -> Any:
        """What autograd keeps instead of `tensor`."""
        if not self._wanted(tensor):
            self.left += 1
            return tensor
        plain = tensor.detach()
        identity = (
            *(plain.untyped_storage()._cdata, plain.storage_offset(), plain.dtype),
            *(tuple(plain.shape), plain.stride(), plain.is_conj(), plain.is_neg()),
            tensor._version,
        )
        kept = self._kept.get(identity)
        if kept is not None:
            self.shared += 1
            return kept
        part, strides = dense_part(plain)
        if part.nbytes < self._min_bytes:
            self.left += 1
            return tensor
        kept = Kept(self._memory.put(part), plain, strides)
        self._kept[identity] = kept
        self.offloaded += 1
        self.offloaded_bytes += part.nbytes
        return kept

    def unpack(self, kept: Any) -> Tensor:
        """What the backward sees."""
        return kept.load() if isinstance(kept, Kept) else kept

    def _wanted(self, tensor: Tensor) -> bool:
        """Whether it is worth moving, and nobody else's: parameters, also as the base of a view,
        are in memory anyway."""
        base = tensor if tensor._base is None else tensor._base
        return (
            type(tensor) is torch.Tensor
            and tensor.layout is torch.strided
            and tensor.nbytes >= self._min_bytes
            and not (base.is_leaf and base.requires_grad)
            and not tensor.is_quantized
            and tensor.device.type != "meta"
        )


@contextmanager
def saved_tensors(memory: TieredMemory, min_bytes: int = SMALL_BYTES) -> Iterator[Saved]:
    """Inside the `with`, tensors of `min_bytes` or more that autograd saves go to `memory`.

    Gradients are those without it, bit by bit, with `retain_graph` and a second derivative too.
    The backward may come later; the memory must still be open. Yields the counts.
    """
    saved = Saved(memory, min_bytes)
    with saved_tensors_hooks(saved.pack, saved.unpack):
        yield saved
