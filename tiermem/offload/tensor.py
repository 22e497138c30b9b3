"""A tensor that lives in tiered memory, as its owner holds it: a name for bytes elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol, TypeAlias

from tiermem.errors import InputError, TiermemError
from tiermem.offload.layout import Layout
from tiermem.offload.ledger import Ledger

Tensor: TypeAlias = Any


class TensorLost(TiermemError):
    """The bytes of an offloaded tensor are in no tier any more; they are never made up."""


class NotDurable(TiermemError):
    """Something that was to survive the process could not be written to a device."""


class Owner(Protocol):
    """The memory that a `TieredTensor` belongs to."""

    ledger: Ledger

    def get(self, handle: TieredTensor, device: Any = None) -> Tensor:
        """A copy of the tensor."""
        ...

    def lease(self, handle: TieredTensor) -> AbstractContextManager[Tensor]:
        """The tensor where it lies."""
        ...

    def free(self, handle: TieredTensor) -> None:
        """Delete it in every tier."""
        ...


class TieredTensor:
    """What `TieredMemory.put` returns. The bytes go with the last reference to an anonymous one;
    a named one stays, across processes, until it is freed."""

    __slots__ = (
        *("__weakref__", "_owner", "block", "codec", "device", "freed", "label"),
        *("layout", "name", "nbytes"),
    )

    def __init__(self, owner: Owner, block: int, layout: Layout, device: Any = "cpu") -> None:
        self._owner = owner
        self.block = block
        self.layout = layout
        self.device = device  # where it came from, and where `load` puts it
        self.nbytes = layout.nbytes  # as stored: fewer with a codec
        self.codec: str | None = None
        self.name: str | None = None
        self.label: int | None = None  # the block that says what a named tensor is
        self.freed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """As that of a tensor."""
        return self.layout.shape

    @property
    def dtype(self) -> Any:
        """As that of a tensor."""
        return self.layout.dtype

    def belongs_to(self, memory: Any) -> bool:
        """Whether this is a tensor of `memory`: blocks are numbers, and another has the same."""
        return self._owner is memory

    def load(self, device: Any = None) -> Tensor:
        """A copy, contiguous, on `device` or where the tensor came from."""
        return self._owner.get(self, device)

    def lease(self) -> AbstractContextManager[Tensor]:
        """The tensor in the memory of the fastest tier, valid inside the `with`."""
        return self._owner.lease(self)

    def free(self) -> None:
        """Delete it. It cannot be read afterwards; freeing again changes nothing."""
        self._owner.free(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError(
            f"{self!r} owns its bytes and can be neither copied nor pickled: share the handle, or "
            "put what load() gives once more"
        )

    def __del__(self) -> None:
        if not self.freed and self.name is None:
            self._owner.ledger.orphan(self.block)

    def __repr__(self) -> str:
        what = f"{self.name!r}, " if self.name is not None else ""
        state = ", freed" if self.freed else ""
        return f"TieredTensor({what}{tuple(self.shape)}, {self.dtype}{state})"
