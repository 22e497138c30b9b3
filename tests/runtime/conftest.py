"""Stores in plain memory, for tests of what stands on stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tiermem.runtime.host import HostArena
from tiermem.runtime.runtime import Runtime
from tiermem.runtime.stores import Fault, FaultKind, Item
from tiermem.testing.twin import Tape

PAGE = 4096


class DictStore:
    """A keyed store in a dict. `faults` maps a key to the fault that touching it gives; while
    `gate` is clear, transfers wait."""

    kind = "file"

    def __init__(self, capacity_bytes: int, name: str = "nvme") -> None:
        self.name = name
        self.capacity_bytes = self.usable_bytes = capacity_bytes
        self.held: dict[bytes, tuple[bytes, bool]] = {}
        self.faults: dict[bytes, FaultKind] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = 0
        self.sync_fault: Fault | None = None
        self.closed = False

    def write(self, items: Sequence[Item], *, keep: bool = True) -> list[Fault | None]:
        assert self.gate.wait(20), "the gate was never opened"
        answers: list[Fault | None] = []
        for key, buffers, nbytes in items:
            answers.append(self._fault(key))
            if answers[-1] is None:
                data = b"".join(buffer.tobytes() for buffer in buffers)
                assert len(data) == nbytes
                self.held[key] = data, keep
        return answers

    def read(self, items: Sequence[Item]) -> list[Fault | None]:
        assert self.gate.wait(20), "the gate was never opened"
        answers: list[Fault | None] = []
        for key, buffers, nbytes in items:
            fault = self._fault(key)
            if fault is None and key not in self.held:
                fault = Fault(FaultKind.MISSING, key.hex())
            answers.append(fault)
            if fault is None:
                data = np.frombuffer(self.held[key][0], np.uint8)
                assert len(data) == nbytes
                for buffer in buffers:
                    buffer[:] = data[: len(buffer)]
                    data = data[len(buffer) :]
        return answers

    def delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.held.pop(key, None)

    def clear(self) -> None:
        self.held.clear()

    def sync(self) -> Fault | None:
        self.syncs += 1
        return self.sync_fault

    def keys(self) -> list[tuple[bytes, int]]:
        return [(key, len(data)) for key, (data, keep) in self.held.items() if keep]

    def close(self) -> None:
        self.closed = True

    def _fault(self, key: bytes) -> Fault | None:
        kind = self.faults.get(key)
        return None if kind is None else Fault(kind, "as the test says")


@pytest.fixture
def dict_store() -> Callable[..., DictStore]:
    """`dict_store(capacity_bytes)`: a file tier without files."""
    return DictStore


@pytest.fixture
def arena() -> Callable[..., HostArena]:
    """`arena(capacity_bytes, name="dram")`."""
    return HostArena


class World:
    """A runtime over memory of `pages` and a dict for files, with a tape."""

    def __init__(self, arena: Any, files: Any, pages: int, **options: Any) -> None:
        self.store = files
        self.tape = Tape()
        self.policy = options.pop("policy", "lru")
        options = {"timeout_s": 20.0, **options}
        self.runtime = Runtime(
            {"dram": arena(pages * PAGE), "nvme": files}, self.policy, taps=[self.tape], **options
        )

    def block(self, name: int, nbytes: int = 100) -> int:
        return self.runtime.block(name.to_bytes(16, "little"), nbytes)

    def put(self, name: int, nbytes: int = 100) -> None:
        block = self.block(name, nbytes)
        with self.runtime.acquire([block]) as grant:
            if grant.missing:
                data = content(name, nbytes)
                for view in grant.views(block):
                    view[:], data = data[: len(view)], data[len(view) :]
                grant.commit()

    def settle(self) -> None:
        """Everything that was asked for before has been seen by the core, and nothing moves."""
        executor = self.runtime._executor
        self.runtime._mind.ask(lambda: lambda: not executor.outstanding, 20, "still moving")

    def get(self, name: int, nbytes: int = 100) -> bool:
        """Whether it is there; if so its bytes are looked at."""
        block = self.block(name, nbytes)
        with self.runtime.acquire([block]) as grant:
            if grant.missing:
                return False
            seen = np.concatenate([*grant.views(block), np.empty(0, np.uint8)])
            assert (seen == content(name, nbytes)).all(), f"block {name} holds other bytes"
            return True


def content(name: int, nbytes: int) -> Any:
    return np.random.default_rng(name).integers(0, 256, nbytes, dtype=np.uint8)


@pytest.fixture
def world(
    arena: Callable[..., Any], dict_store: Callable[..., Any]
) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def build(pages: int = 4, files_bytes: int = 1 << 20, **options: Any) -> World:
        made.append(World(arena, dict_store(files_bytes), pages, **options))
        return made[-1]

    yield build
    for each in made:
        each.store.gate.set()
        each.runtime.close(flush=False)
