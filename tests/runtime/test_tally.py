"""The counters of known histories, and their sums under random ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.messages import (
    Acquire,
    Action,
    Adopt,
    Commit,
    Done,
    Event,
    Forget,
    Hint,
    Move,
    Ready,
    Release,
)
from tiermem.core.policy import Parts
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Obey, Waterfall
from tiermem.runtime import tally as tally_module
from tiermem.runtime.counters import NONE, Count, Counters
from tiermem.runtime.machine import topology_of
from tiermem.runtime.tally import Tally
from tiermem.testing.adversary import Adversary

PAGE = 4096


class Keeps(Waterfall):
    """Lets go of everything that leaves the first tier."""

    def demote(self, blocks: Any, tier: str, view: Any) -> list[str | None]:
        return [None] * len(blocks)


class World:
    """Two tiers of so many pages, one page a block, every move answered when the test says."""

    def __init__(self, dram: int, nvme: int, place: Any = None) -> None:
        capacities = {"dram": dram * PAGE, "nvme": nvme * PAGE}
        topology = topology_of({"dram": "host", "nvme": "file"}, capacities)
        place = place or Waterfall(ahead=0.0)
        policy = Parts(LRU, place, Obey(), capacities, "reverse")
        self.controller = Controller(topology, capacities, policy)
        self.tally = Tally(["dram", "nvme"])
        self.now = 0
        self.moves: list[Move] = []
        self.leases = 0

    def post(self, event: Event) -> list[Action]:
        self.now += 1_000_000_000
        actions = self.controller.on(event, self.now)
        self.tally(self.now, event, actions)
        self.moves += [action for action in actions if isinstance(action, Move)]
        return actions

    def answer(self, lost: tuple[int, ...] = ()) -> list[Action]:
        """Answer the oldest move."""
        move = self.moves.pop(0)
        return self.post(Done(move.id, not lost, lost or None))

    def acquire(self, *blocks: int) -> int:
        self.leases += 1
        self.post(Acquire(self.leases, blocks, (PAGE,) * len(blocks), "dram"))
        return self.leases

    def put(self, *blocks: int) -> None:
        """Acquire, write and release, answering what has to move first."""
        lease = self.acquire(*blocks)
        while self.moves:
            self.answer()
        self.post(Commit(lease))
        self.post(Release(lease))

    @property
    def counters(self) -> Counters:
        return self.tally.snapshot()


def pages(blocks: int) -> Count:
    return Count(blocks, blocks * PAGE)


def test_a_block_that_is_written_and_asked_for_again() -> None:
    """Offered, admitted, stored once; looked up twice, the second time a hit of its tier."""
    world = World(4, 8)
    world.put(1)
    assert world.counters["dram"].hit == NONE
    assert world.counters.missed == {"new": pages(1)}
    world.put(1)
    dram, nvme = world.counters["dram"], world.counters["nvme"]
    assert (dram.offered, dram.admitted, dram.stored) == (pages(1), pages(1), pages(1))
    assert (dram.looked_up, dram.hit, dram.held) == (pages(2), pages(1), pages(1))
    assert nvme.looked_up == pages(1)
    assert (world.counters.asked, world.counters.hit_rate) == (pages(2), 0.5)
    assert world.counters.leases == 2


def test_a_hit_counts_when_its_load_is_done() -> None:
    """Known fault: while bytes are on their way nothing is a hit; the seconds are those of the
    load, and what was demoted was stored below."""
    world = World(1, 8)
    world.put(1)
    world.put(2)
    nvme, dram = world.counters["nvme"], world.counters["dram"]
    assert (nvme.offered, nvme.admitted, nvme.stored) == (pages(1), pages(1), pages(1))
    assert (dram.evicted, dram.demoted, dram.dropped) == (pages(1), pages(1), {})
    lease = world.acquire(1)
    world.answer()  # 2 leaves
    assert world.moves[0].cause == "fetch"
    assert world.counters["nvme"].hit == world.counters["nvme"].loaded == NONE
    world.answer()
    counters = world.counters
    assert counters["nvme"].hit == counters["nvme"].loaded == pages(1)
    assert counters["dram"].promoted == pages(1)
    assert counters["dram"].hit == NONE
    assert counters["nvme"].load_s == 1.0
    assert counters.hit_rate == 1 / 3
    world.post(Release(lease))


def test_a_failed_load_is_no_hit() -> None:
    """It is failed, dropped, and a miss with that reason; the holder writes it again."""
    world = World(1, 8)
    world.put(1)
    world.put(2)
    lease = world.acquire(1)
    world.answer()
    world.answer(lost=(1,))
    world.tally.failed("nvme", "checksum")
    counters = world.counters
    assert counters["nvme"].failed == pages(1)
    assert counters["nvme"].faults == {"checksum": 1}
    assert counters["nvme"].dropped == {"failed": pages(1)}
    assert counters["nvme"].hit == counters["nvme"].loaded == NONE
    assert counters.missed == {"new": pages(2), "failed": pages(1)}
    world.post(Commit(lease))
    assert world.counters["dram"].stored == pages(3)


def test_a_policy_that_refuses_is_told_from_no_room() -> None:
    """What leaves the first tier and goes nowhere was refused by the tier below, for why."""
    world = World(1, 8, Keeps(ahead=0.0))
    world.put(1)
    world.put(2)
    world.put(1)
    assert world.counters["nvme"].refused == {"policy": pages(2)}
    assert world.counters["nvme"].offered == pages(2)
    assert world.counters["nvme"].admitted == NONE
    assert world.counters["dram"].dropped == {"evict": pages(2)}
    assert world.counters.missed == {"new": pages(2), "evict": pages(1)}


def test_leases_that_get_nothing() -> None:
    """Too large at once, and given up while it waited: both refused, neither looked up."""
    world = World(2, 8)
    world.acquire(1, 2, 3)
    assert world.counters["dram"].refused == {"too_large": pages(3)}
    holder = world.acquire(4, 5)
    waiting = world.acquire(6)
    world.post(Release(waiting))
    assert world.counters["dram"].refused == {"too_large": pages(3), "gave_up": pages(1)}
    assert world.counters["dram"].looked_up == pages(2)
    world.post(Release(holder))
    assert world.counters["dram"].dropped == {"unwritten": pages(2)}
    assert world.counters["dram"].stored == NONE


def test_what_was_found_at_the_start() -> None:
    """Adopted blocks are held; more than fits is refused. A later hit is one."""
    world = World(4, 2)
    world.post(Adopt((1, 2, 3), (PAGE,) * 3, "nvme"))
    nvme = world.counters["nvme"]
    assert (nvme.adopted, nvme.held) == (pages(3), pages(2))
    assert nvme.refused == {"no_room": pages(1)}
    world.acquire(1, 2)
    world.answer()
    assert world.counters["nvme"].hit == pages(2)


def test_why_a_lookup_missed() -> None:
    """Forgotten; behind a gap; and there, where the policy would rather compute."""
    world = World(8, 8)
    world.put(1, 2, 3)
    world.post(Forget((2,)))
    world.put(1, 2, 3)
    assert world.counters.missed == {"new": pages(3), "forget": pages(1), "gap": pages(1)}
    assert world.counters["dram"].hit == pages(1)
    assert world.counters["dram"].stored == pages(4)

    class Computes(Waterfall):
        def reuse(self, found: Any, total_bytes: int, at: str, view: Any) -> int:
            return 0

    world = World(1, 8, Computes(ahead=0.0))
    world.put(1)
    world.put(2)
    world.put(1)
    assert world.counters.missed == {"new": pages(2), "recompute": pages(1)}


def test_a_block_changed_in_place_is_stored_again() -> None:
    """And stays one block."""
    world = World(4, 8)
    world.put(1)
    lease = world.acquire(1)
    world.post(Commit(lease, (1,)))
    dram = world.counters["dram"]
    assert (dram.offered, dram.stored, dram.held) == (pages(2), pages(2), pages(1))


def test_prefetched_blocks_are_promoted_and_are_no_hits() -> None:
    """Nobody asked for them yet."""
    world = World(2, 8)
    world.put(1)
    world.put(2)
    world.put(3)
    world.post(Forget((2, 3), "dram"))
    world.post(Hint((1,), "dram"))
    world.answer()
    counters = world.counters
    assert counters["dram"].promoted == counters["nvme"].loaded == pages(1)
    assert counters.hit == NONE


def test_memory_of_losses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of blocks that went long ago it is only known that they are not there."""
    monkeypatch.setattr(tally_module, "REMEMBERED_LOSSES", 2)
    world = World(8, 8)
    world.put(1, 2, 3, 4)
    for block in (1, 2, 3, 4):
        world.post(Forget((block,)))
    assert len(world.tally._gone) == 2
    world.put(1, 2, 3, 4)
    assert world.counters.missed == {"new": pages(6), "forget": pages(2)}
    assert not world.tally._gone


class Watched(Adversary):
    """Counts every event, and compares with the books."""

    tally: Tally

    def _post(self, event: Event) -> None:
        super()._post(event)
        now, event, actions = self.history[-1]
        self.tally(now, event, actions)  # type: ignore[arg-type]
        self.check()

    def check(self) -> None:
        counters = self.tally.snapshot()
        for name, room in self.controller.table.rooms.items():
            tier = counters[name]
            readable = {b: c.nbytes for b, c in room.copies.items() if c.state.name != "ARRIVING"}
            assert self.tally._tiers[name].held == readable
            assert tier.held == Count(len(readable), sum(readable.values()))
            refused = sum(count.blocks for count in tier.refused.values())
            assert tier.offered.blocks == tier.admitted.blocks + refused
            assert tier.stored.blocks <= tier.admitted.blocks
            assert tier.hit.blocks <= tier.looked_up.blocks
            assert tier.demoted.blocks <= tier.evicted.blocks
        missed = sum(count.blocks for count in counters.missed.values())
        assert counters.asked.blocks == counters.hit.blocks + missed
        ready = [a for _, _, actions in self.history for a in actions if isinstance(a, Ready)]
        assert counters.leases == len(ready)
        assert counters.hit.blocks == sum(n for answer in ready for _, n in answer.hits)


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_agree_with_the_books(seed: int) -> None:
    """After every event the tally holds what the table holds, and its sums add up: every block
    offered was admitted or refused, every block asked for was a hit or a miss."""
    random = Random(seed)
    names = ("hbm", "dram", "nvme")[: random.randint(1, 3)]
    capacities = {name: random.randint(3, 25) for name in names}
    topology = topology_of(dict.fromkeys(names, "host"), capacities)
    place = Waterfall(random.random() < 0.5, random.choice((0.0, 0.3)))
    policy = Parts(LRU, place, Obey(), capacities, random.choice(("reverse", "forward")))
    adversary = Watched(topology, capacities, policy, random.randint)
    adversary.tally = Tally(names)
    adversary.play(random.randint(20, 60))
