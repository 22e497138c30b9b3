"""Which block is the tensor of a name: labels, read from and written to a runtime.

What a name stood for when it was last made durable stays until what it stands for now is durable
too. Whenever the process is killed, the name means one of the two.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch

from tiermem.errors import InputError
from tiermem.offload import views
from tiermem.offload.labels import LABEL_BYTES, Label, label_keys, pack, unpack
from tiermem.offload.layout import Layout
from tiermem.runtime.grants import Grant
from tiermem.runtime.runtime import Runtime

_LAYOUT = Layout(torch.uint8, (LABEL_BYTES,))


class Meaning(NamedTuple):
    """What a name stands for, and the blocks of that."""

    label: Label
    label_block: int
    block: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Both of them."""
        return self.label_block, self.block


class Named:
    """The names of one identity in one runtime. Any thread may call."""

    def __init__(self, runtime: Runtime, identity: str) -> None:
        self._runtime = runtime
        self._identity = identity
        self._mutex = threading.Lock()
        self._before: dict[str, Meaning] = {}  # what names stood for at the last flush

    def read(self, name: str) -> Meaning | None:
        """What `name` stands for; None where it is unknown, or its tensor is gone. `InputError`
        for a label that this version does not read."""
        with self._mutex:
            return self._read(name)

    def write(self, name: str, label: Label) -> tuple[Meaning, list[int]]:
        """Make `name` stand for `label`; what it means now, and the blocks of what nobody needs."""
        with self._mutex:
            now, gone = self._read(name), []
            slots = self._slots(name)
            slot = slots[0]
            if now is not None:
                label = label._replace(version=now.label.version + 1)
                slot = now.label_block  # it was never durable, and need not become so
                if name in self._before:
                    gone.append(now.block)
                else:
                    self._before[name] = now
                    slot = slots[1] if slot == slots[0] else slots[0]
            data = bytearray(pack(label, name, self._identity))
            with self._runtime.acquire((slot,)) as grant:
                views.write(grant.views(slot), torch.frombuffer(data, dtype=torch.uint8))
                grant.commit((slot,) if grant.ready_blocks else ())
            return self._meaning(label, slot), gone

    def drop(self, name: str, label_block: int) -> list[int]:
        """The blocks to delete, beside its own, with the tensor that this label of `name` is of:
        those that it stood for before."""
        with self._mutex:
            before = self._before.pop(name, None)
            return [] if before is None or before.label_block == label_block else [*before.blocks]

    def flush(self) -> tuple[int, list[int]]:
        """Make every name durable: how many blocks could not be, and those nobody needs now."""
        with self._mutex:
            failed = self._runtime.flush()
            gone = [] if failed else [b for each in self._before.values() for b in each.blocks]
            if not failed:
                self._before.clear()
            return failed, gone

    def _slots(self, name: str) -> list[int]:
        return [
            self._runtime.block(key, LABEL_BYTES, keep=True)
            for key in label_keys(name, self._identity)
        ]

    def _meaning(self, label: Label, slot: int) -> Meaning:
        return Meaning(label, slot, self._runtime.block(label.key, label.nbytes, keep=True))

    def _read(self, name: str) -> Meaning | None:
        """The newest of both labels whose tensor is there."""
        found: list[tuple[Label, int]] = []
        unreadable: InputError | None = None
        for slot in self._slots(name):
            with self._runtime.acquire((slot,)) as grant:
                try:
                    label = self._content(grant, name)
                except InputError as error:
                    unreadable = error
                    continue
            if label is not None:
                found.append((label, slot))
        found.sort(key=lambda each: each[0].version, reverse=True)
        for label, slot in found:
            if self._runtime.known((label.key,)):
                return self._meaning(label, slot)
        if unreadable is not None:
            raise unreadable
        return None

    def _content(self, grant: Grant, name: str) -> Label | None:
        if not grant.ready_blocks:
            return None
        data = views.copied(grant.views(grant.blocks[0]), _LAYOUT, "cpu")
        try:
            return unpack(bytes(data.numpy()), name, self._identity)
        except InputError as error:
            raise InputError(f"tensor {name!r}: {error}; use another folder") from error
