"""TieredMemory: the one object a user holds. Tensors go in, and come back bit by bit.

Its tiers are stores of this machine, its mind is the controller that the simulator runs too, under
a policy of the same name. What is put is *staged* when `put` returns: the source may be freed or
overwritten at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from typing import Any, TypeAlias, Unpack

from tiermem.core.policy import Policy
from tiermem.errors import Denied, DoesNotFit, InputError, RuntimeFault, TimedOut
from tiermem.offload import checks, views
from tiermem.offload.codec import Codec
from tiermem.offload.labels import KEY_BYTES, LABEL_BYTES, Label
from tiermem.offload.layout import layout_of
from tiermem.offload.ledger import Ledger, whole_classes
from tiermem.offload.loan import Loan, loaded
from tiermem.offload.named import Named
from tiermem.offload.tensor import NotDurable, TensorLost, TieredTensor
from tiermem.offload.tiers import More, Size, exact, rooms_of, stores_of
from tiermem.runtime.runtime import Runtime

Tensor: TypeAlias = Any


class TieredMemory:
    """Tensors over the tiers of this machine: `host` memory, a `disk` folder with `disk_bytes`, and
    what `More` names.

    `policy` is a name of `tiermem hits` or `module:Class`; `codec` (int8, fp8, nf4) keeps floating
    tensors in fewer bits in every tier, never unless asked for; `identity` says what the tensors
    are of: files of another identity are refused by name. Any thread may call.

    What is put cannot be computed again, so no tier ever drops the last copy of it: all of it must
    fit the largest tier. A device that fails is another matter; then reading raises `TensorLost`.
    """

    def __init__(
        self,
        host: Size | None = "64 MiB",
        disk: str | PathLike[str] | None = None,
        disk_bytes: Size | None = None,
        *,
        policy: str | Policy = "lru",
        codec: str | None = None,
        identity: str = "",
        **more: Unpack[More],
    ) -> None:
        checks.policy(policy, "policy")
        wait_s = checks.seconds(more.get("timeout_s", 30.0), "timeout_s")
        taps = checks.taps(more.get("taps", ()), "taps")
        self.codec = None if codec is None else Codec(checks.text(codec, "codec"))
        self.identity = identity
        stores = stores_of(host, disk, disk_bytes, identity, more)
        with ExitStack() as undo:
            for store in stores.values():
                undo.callback(store.close)
            rooms = rooms_of(stores)
            self.ledger = Ledger(rooms)
            self.policy = exact(policy, rooms)
            self.runtime = Runtime(stores, self.policy, timeout_s=wait_s, taps=taps)
            undo.pop_all()  # they are the runtime's to close now
        self._named = Named(self.runtime, identity)
        self._closed = False
        self._mutex = threading.Lock()
        self._stored = {"encoded": 0, "exact": 0, "encoded_bytes": 0, "exact_bytes": 0}

    # -- tensors -------------------------------------------------------------------------------

    def put(self, tensor: Tensor, name: str | None = None) -> TieredTensor:
        """Take a copy of `tensor`, whatever its dtype, strides and device.

        With a `name` it is kept across processes (durable after `flush`) and found by `find`; what
        had the name before is replaced. Raises `DoesNotFit` for a tensor larger than the fastest
        tier, or than what is left of the largest one.
        """
        if name is not None:
            checks.text(name, "name", empty=False)
        layout, data, codec = layout_of(tensor), tensor, None
        if self.codec is not None and self.codec.takes(tensor):
            data, codec = self.codec.encode(tensor), self.codec.name
        nbytes = layout_of(data).nbytes
        key = os.urandom(KEY_BYTES)
        block = self.hold(key, nbytes, keep=name is not None)
        handle = TieredTensor(self, block, layout, tensor.device)
        handle.codec, handle.nbytes = codec, nbytes
        with self.runtime.acquire((block,)) as grant:
            views.write(grant.views(block), data)
            grant.commit()
        if name is not None:
            self._name(handle, name, key)
        with self._mutex:
            kind = "exact" if codec is None else "encoded"
            self._stored[kind] += 1
            self._stored[f"{kind}_bytes"] += nbytes
        return handle

    def find(self, name: str) -> TieredTensor | None:
        """The tensor that was put under `name`, also by an earlier process; None if there is none.

        Raises `InputError` for one that was stored in a way that this memory does not read: with
        another codec than its own, or by another version.
        """
        checks.text(name, "name", empty=False)
        self.collect()
        found = self._named.read(name)
        if found is None:
            return None
        label, own = found.label, None if self.codec is None else self.codec.name
        if label.codec not in (None, own):
            raise InputError(
                f"tensor {name!r} was stored with codec {label.codec!r}, this memory has {own!r}: "
                f"open it with codec={label.codec!r}, or put it again"
            )
        self.ledger.hold({found.block: label.nbytes, found.label_block: LABEL_BYTES})
        handle = TieredTensor(self, found.block, label.layout)
        handle.codec, handle.nbytes = label.codec, label.nbytes
        handle.name, handle.label = name, found.label_block
        return handle

    @contextmanager
    def lease(self, handle: TieredTensor) -> Iterator[Tensor]:
        """The tensor in the memory of the fastest tier, without a copy where it lies in one piece
        and has no codec. It is for reading, inside the `with` alone."""
        loan = self.borrow((handle,))
        try:
            yield loan.tensors[0]
        finally:
            loan.release()

    def get(self, handle: TieredTensor, device: Any = None) -> Tensor:
        """A copy, on `device` or where the tensor came from."""
        blocks = self.blocks_of((handle,))
        where = handle.device if device is None else device
        with self.runtime.acquire(blocks) as grant:
            return loaded(handle, grant, where)

    def free(self, handle: TieredTensor) -> None:
        """Delete the tensor in every tier. Nothing changes when it was freed or replaced before, or
        the memory is closed."""
        self._own(handle)
        if handle.freed:
            return
        handle.freed = True
        # One that was replaced must not take the label along, which is of what came after it.
        if self._closed or not self.ledger.holds(handle.block):
            return
        blocks = [handle.block]
        if handle.name is not None and handle.label is not None:
            blocks += [handle.label, *self._named.drop(handle.name, handle.label)]
        self.forget(blocks)

    @property
    def fastest_bytes(self) -> int:
        """What the tier that tensors are used in has room for."""
        return self.ledger.fastest[1]

    # -- the whole -----------------------------------------------------------------------------

    def clear(self, tier: str | None = None) -> None:
        """Delete everything, or every copy in one tier: what only that tier held is lost too, and
        reading it raises `TensorLost`."""
        self.collect()
        self.runtime.clear(tier)
        if tier is None:
            self.ledger.clear()

    def flush(self) -> None:
        """On return every named tensor that was put before is *durable*; what had its name before
        is gone. `NotDurable` where a device did not take something: that stays in memory."""
        self.collect()
        failed, gone = self._named.flush()
        self.forget(gone)
        if failed:
            raise NotDurable(
                f"{failed} blocks that are to be kept could not be written (status() counts why); "
                "they are in memory yet: make room or mend the disk, and flush again"
            )

    def status(self) -> dict[str, Any]:
        """Counters: of the tensors of this memory, and of its tiers as the runtime counts them."""
        self.collect()
        held = {"blocks": self.ledger.blocks, "bytes": self.ledger.nbytes}
        return {"held": held, "stored": dict(self._stored), "tiers": self.runtime.counters()}

    def close(self) -> None:
        """Flush, finish what is under way and give the memory back; once is enough."""
        if not self._closed:
            self._closed = True
            try:
                with suppress(RuntimeFault):  # nothing can be flushed any more, or by a fork
                    self.flush()
            finally:
                self.runtime.close(flush=False)

    def __enter__(self) -> TieredMemory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- for the other parts of this package ---------------------------------------------------

    def borrow(self, handles: Sequence[TieredTensor]) -> Loan:
        """Lease several tensors as one: all of their room is granted, or none."""
        return Loan(handles, self.runtime.acquire(self.blocks_of(handles)))

    def blocks_of(self, handles: Sequence[TieredTensor]) -> tuple[int, ...]:
        """The blocks to acquire for these tensors, each once. `InputError` for one that was freed
        or is another memory's, `TensorLost` for one that was deleted by another way."""
        self.collect()
        for handle in handles:
            self._own(handle)
            if handle.freed:
                raise InputError(f"{handle!r} cannot be read any more")
            if not self.ledger.holds(handle.block):
                raise TensorLost(
                    f"{handle!r} is in no tier any more: it was replaced or freed under its name, "
                    "or everything was cleared; find() what the name means now, or put it again"
                )
        return tuple(dict.fromkeys(handle.block for handle in handles))

    def hold(self, key: bytes, nbytes: int, *, keep: bool = False) -> int:
        """A block of `nbytes` under `key` that has a place until it is forgotten."""
        self.collect()
        self.ledger.check(nbytes)
        block = self.runtime.block(key, nbytes, keep=keep)
        try:
            self.ledger.hold({block: nbytes})
        except DoesNotFit:
            self.runtime.forget((block,))
            raise
        return block

    def sink(self) -> bool:
        """Move what is not leased out of the fastest tier, where a lower one has room for all.
        False: it stays, for there is none, or others held leases for as long as a call waits."""
        name, room = self.ledger.fastest
        if self.ledger.largest[0] == name:
            return False
        sizes = whole_classes(room)
        blocks = [self.runtime.block(os.urandom(KEY_BYTES), each, keep=False) for each in sizes]
        try:
            self.runtime.acquire(blocks).release()  # all the room there is
        except (TimedOut, Denied):
            return False
        finally:
            self.runtime.forget(blocks)
        return True

    def forget(self, blocks: Sequence[int]) -> None:
        """Delete these blocks in every tier."""
        self.ledger.drop(blocks)
        self.runtime.forget(tuple(blocks))

    def collect(self) -> None:
        """Delete what nobody has a handle of any more."""
        orphans = self.ledger.orphans()
        if orphans:
            self.forget(orphans)

    # -- inside --------------------------------------------------------------------------------

    def _own(self, handle: Any) -> None:
        """`InputError` for anything but a handle of this memory."""
        if not isinstance(handle, TieredTensor):
            raise InputError(f"{handle!r} is not a TieredTensor: put() and find() give them")
        if not handle.belongs_to(self):
            raise InputError(f"{handle!r} is of another TieredMemory: ask that one for it")

    def _name(self, handle: TieredTensor, name: str, key: bytes) -> None:
        """Let `name` mean this tensor; what it meant goes when this one is durable."""
        meant = Label(key, handle.layout, handle.codec, handle.nbytes)
        meaning, gone = self._named.write(name, meant)
        self.ledger.hold({meaning.label_block: LABEL_BYTES})
        handle.name, handle.label = name, meaning.label_block
        self.forget(gone)
