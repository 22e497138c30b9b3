"""A small machine around a controller, driven by hand: send events, look at the actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.lease import LeaseState
from tiermem.core.messages import Acquire, Action, Commit, Done, Drop, Event, Move, Release
from tiermem.core.policy import Parts, Policy
from tiermem.models.link import Link
from tiermem.models.tier import Kind, Tier
from tiermem.models.topology import Topology
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Obey, Waterfall

KINDS: tuple[Kind, ...] = ("hbm", "dram", "nvme")


def _machine(capacities: dict[str, int]) -> Topology:
    tiers = tuple(
        Tier(name, kind, size, 1e9, 1e9, 0)
        for (name, size), kind in zip(capacities.items(), KINDS, strict=False)
    )
    return Topology(
        tiers, tuple(Link(f"to {t.name}", (t.name, "host"), 1e9, True, 0) for t in tiers)
    )


def _policy(
    capacities: dict[str, int],
    evict: Any = LRU,
    place: Any = None,
    order: Any = "reverse",
    prefetch: Any = None,
) -> Policy:
    place = place or Waterfall(ahead=0.0)
    return Parts(evict, place, prefetch or Obey(), capacities, order)


class World:
    """One controller. Every event is followed by a recount of the books (INV-1).

    Blocks are one byte each unless a test says otherwise.
    """

    def __init__(self, capacities: dict[str, int], policy: Policy, topology: Topology) -> None:
        self.controller = Controller(topology, capacities, policy)
        self.top = topology.names[0]
        self.history: list[tuple[int, Event, list[Action]]] = []
        self.now = 0

    def post(self, event: Event) -> list[Action]:
        self.now += 1
        actions = self.controller.on(event, self.now)
        self.history.append((self.now, event, list(actions)))
        scratch: dict[str, int] = {}
        for lease in self.controller.leases.values():
            if lease.state is not LeaseState.QUEUED:
                scratch[lease.at] = scratch.get(lease.at, 0) + lease.scratch_bytes
        self.controller.table.check(scratch)
        return actions

    def acquire(
        self, lease: int, blocks: Sequence[int], *, size: int = 1, at: str = "", scratch: int = 0
    ) -> list[Action]:
        sizes = (size,) * len(blocks)
        return self.post(Acquire(lease, tuple(blocks), sizes, at or self.top, scratch))

    def commit(self, lease: int) -> list[Action]:
        return self.post(Commit(lease))

    def release(self, lease: int) -> list[Action]:
        return self.post(Release(lease))

    def done(self, move: Action, *, ok: bool = True) -> list[Action]:
        """What follows from the end of a move, save the notice that what it took is gone."""
        assert isinstance(move, Move)
        actions = self.post(Done(move.id, ok))
        return [a for a in actions if not (isinstance(a, Drop) and a.cause == "moved")]

    def finish(self, actions: Sequence[Action]) -> list[Action]:
        """Every move among `actions` succeeds, and those that follow from it; all the actions."""
        seen, todo = list(actions), list(actions)
        while todo:
            action = todo.pop(0)
            if isinstance(action, Move):
                more = self.done(action)
                seen += more
                todo += more
        return seen

    def write(self, lease: int, blocks: Sequence[int], *, size: int = 1, at: str = "") -> list[Any]:
        """A lease comes, writes and goes, with all its moves."""
        actions = self.finish(self.acquire(lease, blocks, size=size, at=at))
        actions += self.finish(self.commit(lease))
        return actions + self.finish(self.release(lease))

    def where(self, block: int) -> tuple[str, ...]:
        return self.controller.view.where(block)

    def holds(self, tier: str) -> set[int]:
        """The readable blocks of a tier."""
        copies = self.controller.table.rooms[tier].copies
        return {block for block in copies if tier in self.where(block)}

    def used(self, tier: str) -> int:
        return self.controller.view.used_bytes(tier)


@pytest.fixture(scope="session")
def machine() -> Callable[[dict[str, int]], Topology]:
    """`machine({"hbm": 4, "dram": 8})`: tiers of so many bytes, all linked to the host."""
    return _machine


@pytest.fixture(scope="session")
def make_policy() -> Callable[..., Policy]:
    """`make_policy(capacities, evict, place, order, prefetch)`: LRU in a waterfall by default."""
    return _policy


@pytest.fixture(scope="session")
def world() -> Callable[..., World]:
    """`world({"hbm": 4, "dram": 8}, evict=..., place=..., order=...)`: a controller to play with;
    `policy=` takes a whole one."""

    def build(capacities: dict[str, int], *, policy: Policy | None = None, **parts: Any) -> World:
        policy = policy or _policy(capacities, **parts)
        return World(capacities, policy, _machine(capacities))

    return build
