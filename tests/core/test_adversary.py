"""INV-1 to INV-7 under random histories, for every built-in policy; INV-10 by replaying them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.core.controller import Controller
from tiermem.core.policy import Parts, Policy
from tiermem.models.link import Link
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.policies.fifo import FIFO
from tiermem.policies.lfu import LFU
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Obey, Waterfall
from tiermem.policies.s3fifo import S3FIFO
from tiermem.testing.adversary import Adversary


def machine(capacities: dict[str, int]) -> Topology:
    kinds = ("hbm", "dram", "nvme")
    tiers = tuple(
        Tier(name, kind, size, 1e9, 1e9, 0)
        for (name, size), kind in zip(capacities.items(), kinds, strict=False)
    )
    return Topology(tiers, tuple(Link(f"l{t.name}", (t.name, "host"), 1e9, True, 0) for t in tiers))


def policy(
    evict: type, capacities: dict[str, int], write_through: bool, order: str, ahead: float = 0.0
) -> Policy:
    return Parts(evict, Waterfall(write_through, ahead), Obey(), capacities, order)  # type: ignore[arg-type]


@pytest.mark.parametrize("evict", [LRU, FIFO, LFU, S3FIFO])
@settings(
    max_examples=250,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_adversary(evict: type, data: st.DataObject) -> None:
    """INV-1..7: books balance, each lease and move is answered once, nobody waits for ever."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    names = ("hbm", "dram", "nvme")[: draw(1, 3)]
    capacities = {name: draw(2, 14) for name in names}
    through, order = draw(0, 1) == 1, ("reverse", "forward")[draw(0, 1)]
    ahead = (0.0, 0.3)[draw(0, 1)]
    topology = machine(capacities)
    adversary = Adversary(
        topology, capacities, policy(evict, capacities, through, order, ahead), draw
    )
    adversary.play(draw(5, 60))
    twin = Controller(topology, capacities, policy(evict, capacities, through, order, ahead))
    for now, event, actions in adversary.history:
        assert twin.on(event, now) == actions, "INV-10: the same events give the same actions"
