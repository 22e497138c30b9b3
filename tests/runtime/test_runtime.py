"""The runtime as its users see it: bytes come back, faults are misses, nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.errors import Denied, InputError, RuntimeFault, TimedOut, UnknownName
from tiermem.runtime.runtime import Runtime
from tiermem.runtime.stores import Fault, FaultKind
from tiermem.testing.twin import same_actions

PAGE = 4096


def test_bytes_come_back_from_below(world: Callable[..., Any]) -> None:
    """Far more than memory holds, of every size; all of it is there, and INV-10 holds."""
    small = world(pages=16, files_bytes=8 << 20)
    sizes = {name: (name * 997) % 20_000 for name in range(100)}
    for name, nbytes in sizes.items():
        small.put(name, nbytes)
    assert all(small.get(name, nbytes) for name, nbytes in sizes.items())
    runtime = small.runtime
    fresh = Controller(
        runtime.topology, runtime.capacities_bytes, make_policy("lru", runtime.capacities_bytes)
    )
    runtime.close()
    assert same_actions(small.tape, fresh) > 200


def test_what_memory_and_core_hold_agrees(world: Callable[..., Any]) -> None:
    """INV-1 with real bytes: the arena gives out what the core's books say, at every event."""
    small = world(pages=8)
    inventory, rooms = small.runtime.inventory, small.runtime.controller.table.rooms
    for name in range(40):
        small.put(name, 5000)
    small.settle()
    assert inventory.memory["dram"].used_bytes == rooms["dram"].used_bytes
    assert len(small.store.held) == len(rooms["nvme"].copies)


def test_a_fault_is_a_miss_with_a_counter(world: Callable[..., Any]) -> None:
    """Known fault 147: no byte of a damaged block reaches anybody."""
    small = world()
    for name in range(12):
        small.put(name)
    small.store.faults = dict.fromkeys(small.store.held, FaultKind.CHECKSUM)
    assert not small.get(0)
    counted = small.runtime.counters().tiers["nvme"]
    assert dict(counted.faults) == {"checksum": 1}
    assert (counted.hit.blocks, counted.failed.blocks) == (0, 1)
    small.store.faults = {}
    assert not small.get(0), "a copy that could not be read is gone"
    small.put(0)
    assert small.get(0)


def test_everything_fails_and_answers_stay_right(world: Callable[..., Any]) -> None:
    """Every transfer forced to fail: no hit is counted from below, and nothing hangs."""
    small = world()
    for name in range(30):
        small.store.faults[name.to_bytes(16, "little")] = FaultKind.IO
    denied = 0
    for name in range(30):
        try:
            small.put(name)
        except Denied:  # nothing can be moved out of its way
            denied += 1
    assert denied > 0
    assert not small.store.held
    counted = small.runtime.counters().tiers["nvme"]
    assert counted.faults["io"] > 0
    assert counted.hit.blocks == counted.stored.blocks == 0


def test_a_device_that_hangs_blocks_only_who_waits_for_it(world: Callable[..., Any]) -> None:
    """Known fault 88: the wait ends, and what is in memory is served meanwhile."""
    small = world(timeout_s=0.3)
    for name in range(8):
        small.put(name)
    small.store.gate.clear()
    with pytest.raises(TimedOut, match=r"no room for 1 blocks in tier 'dram' within 0\.3 s"):
        small.get(0)
    assert small.get(7), "what is in memory is there"
    small.store.gate.set()
    small.runtime.timeout_s = 20
    assert small.get(0)


def test_a_block_larger_than_its_tier_is_refused_with_both_numbers(
    world: Callable[..., Any],
) -> None:
    """INV-6: at once, with what is missing and what there is."""
    small = world()
    with pytest.raises(Denied, match=r"4 KiB more than the tier can offer \(dram 16 KiB"):
        small.put(1, 5 * PAGE)


def test_a_lease_that_cannot_have_its_room_times_out(world: Callable[..., Any]) -> None:
    """Two leases in one thread that need the same room: said, with how many are held."""
    small = world(timeout_s=0.2)
    blocks = [small.block(name, 3 * PAGE) for name in (1, 2)]
    grant = small.runtime.acquire([blocks[0]])
    with pytest.raises(TimedOut, match="2 leases are held or wait"):
        small.runtime.acquire([blocks[1]])
    grant.release()
    with small.runtime.acquire([blocks[1]]) as grant:
        assert grant.missing


def test_a_chain_names_each_block_once(world: Callable[..., Any]) -> None:
    """Bad calls are refused before anything is asked of the core."""
    small = world()
    block = small.block(1)
    with pytest.raises(InputError, match="once"):
        small.runtime.acquire([block, block])
    with pytest.raises(UnknownName, match="known: dram"):
        small.runtime.acquire([block], at="nvme")


def test_clear_leaves_nothing(world: Callable[..., Any]) -> None:
    """Of every tier, or of one; nothing comes back, and the names may be used again."""
    small = world()
    for name in range(10):
        small.put(name)
    small.runtime.clear("dram")
    rooms = small.runtime.controller.table.rooms
    assert (rooms["dram"].used_bytes, rooms["nvme"].used_bytes > 0) == (0, True)
    assert small.get(0)
    small.runtime.clear()
    assert not small.store.held
    assert [small.get(name) for name in range(10)] == [False] * 10
    with pytest.raises(UnknownName, match="did you mean 'nvme'"):
        small.runtime.clear("nvm")


def test_a_deleted_block_is_gone_and_its_name_free(world: Callable[..., Any]) -> None:
    """The same key may mean something else afterwards."""
    small = world()
    small.put(1, 100)
    small.runtime.forget([small.block(1, 100)])
    small.settle()
    small.put(1, 200)
    assert small.get(1, 200)


def test_flush_makes_durable_what_is_kept(world: Callable[..., Any]) -> None:
    """Only that, with one sync; what could not be written is counted."""
    small = world()
    small.put(1)
    small.runtime.block(b"x" * 16, 5, keep=False)
    with small.runtime.acquire([small.runtime.block(b"x" * 16, 5, keep=False)]) as grant:
        grant.commit()
    assert small.runtime.flush() == 0
    assert list(small.store.held) == [(1).to_bytes(16, "little")]
    assert small.store.syncs == 1
    small.put(2)
    small.store.faults[(2).to_bytes(16, "little")] = FaultKind.SPACE
    assert small.runtime.flush() == 1, "one block could not be written"
    small.store.sync_fault = Fault(FaultKind.IO, "as the test says")
    assert small.runtime.flush() == 1, "what was written may be gone"


def test_what_was_kept_is_found_by_the_next_one(
    world: Callable[..., Any], arena: Callable[..., Any]
) -> None:
    """Known fault 85: after a restart everything is there."""
    first = world()
    for name in range(6):
        first.put(name)
    first.runtime.close()
    with Runtime({"dram": arena(4 * PAGE), "nvme": first.store}) as runtime:
        keys = [name.to_bytes(16, "little") for name in range(6)]
        assert runtime.known(keys) == 6
        first.runtime = runtime
        assert all(first.get(name) for name in range(6))


def test_closed_is_closed(world: Callable[..., Any]) -> None:
    """Closing twice is closing once; calls are refused with the reason."""
    small = world()
    block = small.block(1)
    small.runtime.close()
    small.runtime.close()
    assert small.store.closed
    with pytest.raises(RuntimeFault, match="closed"):
        small.runtime.acquire([block])


def test_a_policy_that_raises_stops_nobody_for_ever(world: Callable[..., Any]) -> None:
    """Who waits hears its name, and so does everybody after."""

    small = world(pages=2)

    def victims() -> Any:
        raise ZeroDivisionError("my policy")

    small.runtime.policy.evict("dram").victims = victims
    small.put(0)
    with pytest.raises(RuntimeFault, match="ZeroDivisionError: my policy"):
        small.put(1)
    with pytest.raises(RuntimeFault, match="my policy"):
        small.get(0)
