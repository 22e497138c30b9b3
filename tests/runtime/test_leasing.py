"""From asking to holding: answers reach who asked, and who gave up leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.core.messages import Commit, Event, Release
from tiermem.errors import Denied, InputError, RuntimeFault
from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.leasing import Leasing
from tiermem.runtime.machine import topology_of

PAGE = 4096


class World:
    """A core without threads: what is called later waits in `calls`."""

    def __init__(self, arena: Any) -> None:
        sizes = {"dram": 2 * PAGE}
        self.names = Names()
        self.inventory = Inventory({"dram": arena(2 * PAGE)}, self.names)
        topology = topology_of({"dram": "host"}, sizes)
        self.controller = Controller(topology, sizes, make_policy("lru", sizes))
        self.calls: list[Callable[[], None]] = []
        self.leasing = Leasing(
            self.controller,
            self.inventory,
            post_now=self.post,
            post=self.post,
            call=self.calls.append,
        )

    def post(self, event: Event) -> None:
        for action in self.controller.on(event, 0):
            self.leasing.tell(action)

    def serve(self) -> None:
        while self.calls:
            self.calls.pop(0)()

    def ask(self, *names: int, nbytes: int = 10) -> Any:
        blocks = tuple(self.names.block(bytes([name]) * 16, nbytes) for name in names)
        future = self.leasing.ask(blocks, "dram")
        self.serve()
        return future


@pytest.fixture
def world(arena: Callable[..., Any]) -> World:
    return World(arena)


def test_an_answer_is_a_grant(world: World) -> None:
    """INV-6: the holder writes what is missing, and finds it the next time."""
    grant = world.ask(1, 2).result(0)
    assert (grant.ready_blocks, len(grant.missing)) == (0, 2)
    assert [len(view) for block in grant.blocks for view in grant.views(block)] == [10, 10]
    world.post(Commit(grant.lease))
    world.post(Release(grant.lease))
    assert world.ask(1).result(0).ready_blocks == 1


def test_a_denial_says_both_numbers(world: World) -> None:
    """INV-6: how much is missing, and what there is."""
    with pytest.raises(Denied, match=r"4 KiB more than the tier can offer \(dram 8 KiB\)"):
        world.ask(1, 2, 3).result(0)


def test_who_gives_up_holds_nothing(world: World) -> None:
    """While waiting, and in the moment in which the grant comes."""
    first = world.ask(1, 2).result(0)
    second = world.ask(3)
    assert not second.done()
    assert second.cancel()
    world.serve()
    assert list(world.controller.leases) == [first.lease]
    early = world.leasing.ask((world.names.block(b"e" * 16, 1),), "dram")
    early.cancel()
    world.serve()
    assert list(world.controller.leases) == [first.lease]


def test_room_that_hangs_is_said(world: World) -> None:
    """The core grants what the arena cannot give: an error says why, and no lease is left."""
    stuck = world.names.block(b"s" * 16, PAGE)
    assert world.inventory.allocate("dram", [stuck]) is None
    world.inventory.strand("dram", [stuck])
    with pytest.raises(Denied, match="transfers that hang hold 4 KiB of it"):
        world.ask(1, 2).result(0)
    world.serve()
    assert not world.controller.leases


def test_a_broken_core_is_told_to_who_waits(world: World) -> None:
    """Nobody waits for an answer that cannot come."""
    world.ask(1, 2)
    waiting = world.ask(3)
    world.leasing.fail(RuntimeFault("gone"))
    with pytest.raises(RuntimeFault, match="gone"):
        waiting.result(0)


def test_a_core_that_breaks_while_granting_is_told_to_who_is_granted(world: World) -> None:
    """An error between the answer and the grant: the caller hears of it at once."""
    block = world.names.block(b"x" * 16, 1)
    world.inventory.allocate = None  # type: ignore[method-assign, assignment]
    future = world.leasing.ask((block,), "dram")
    with pytest.raises(TypeError):
        world.serve()
    world.leasing.fail(RuntimeFault("the core stopped"))
    with pytest.raises(RuntimeFault, match="the core stopped"):
        future.result(0)


def test_a_forgotten_block_has_to_be_named_again(world: World) -> None:
    """Asked for by a number that means nothing any more: said at once, and the core lives on."""
    block = world.names.block(b"f" * 16, 1)
    late = world.leasing.ask((block,), "dram")
    world.names.discard(block)
    world.serve()
    with pytest.raises(InputError, match=f"block {block} was forgotten"):
        late.result(0)
    with pytest.raises(InputError, match="name it again"):
        world.leasing.ask((block,), "dram")
    assert world.ask(1).result(0).missing
