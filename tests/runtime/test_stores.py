"""The two protocols: what there is fits them, and faults are values."""

from __future__ import annotations

import inspect

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.host import HostArena
from tiermem.runtime.stores import Fault, FaultKind, KeyedStore, MemoryStore


def public(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol) if not name.startswith("_")}


def test_our_stores_keep_their_protocols() -> None:
    """Every method with the same parameters."""
    for store, protocol in ((HostArena, MemoryStore), (FileStore, KeyedStore)):
        for name in public(protocol):
            asked, given = getattr(protocol, name), getattr(store, name, None)
            assert given is not None, name
            if inspect.isfunction(asked):
                assert list(inspect.signature(asked).parameters) == list(
                    inspect.signature(given).parameters
                ), name


def test_a_fault_is_a_value() -> None:
    """It is returned, with a kind and a line for a person; nobody raises it."""
    fault = Fault(FaultKind.CHECKSUM, "slot 3 of segment 1")
    assert not isinstance(fault, BaseException)
    assert (str(fault.kind), fault.detail) == ("checksum", "slot 3 of segment 1")
