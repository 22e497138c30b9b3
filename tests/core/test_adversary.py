"""INV-1 to INV-7 under random histories, for every built-in policy; INV-10 by replaying them.

Histories come from two sources: hypothesis, which shrinks what it finds and is slow, and plain
seeded dice, which are fast. `Adversary` counts the books again after every event and checks at
the end that nobody was left waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.core.controller import Controller
from tiermem.core.messages import Drop
from tiermem.core.policy import Policy
from tiermem.policies.fifo import FIFO
from tiermem.policies.lfu import LFU
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Obey, Waterfall
from tiermem.policies.s3fifo import S3FIFO
from tiermem.testing.adversary import Adversary

POLICIES = [LRU, FIFO, LFU, S3FIFO]
NAMES = ("hbm", "dram", "nvme")
HISTORIES = 375  # seeded ones for each policy: 1,500 in all
Draw = Callable[[int, int], int]


@pytest.fixture(scope="module")
def duel(machine: Any, make_policy: Any) -> Callable[..., None]:
    """Play one history, and feed its events to a fresh controller."""

    def play(evict: Any, draw: Draw, longest: int) -> None:
        names = NAMES[: draw(1, 3)]
        capacities = {name: draw(3, 25) for name in names}
        through, order = draw(0, 1) == 1, ("reverse", "forward")[draw(0, 1)]
        ahead = (0.0, 0.3)[draw(0, 1)]

        def policy() -> Policy:
            made: Policy = make_policy(capacities, evict, Waterfall(through, ahead), order, Obey())
            return made

        topology = machine(capacities)
        adversary = Adversary(topology, capacities, policy(), draw)
        adversary.play(draw(5, longest))
        for _, _, actions in adversary.history:
            gone = {a.tier for a in actions if isinstance(a, Drop) and a.cause == "evict"}
            assert gone <= {names[-1]}, "INV-4: a waterfall lets go at its foot only"
        twin = Controller(topology, capacities, policy())
        for now, event, actions in adversary.history:
            again = twin.on(event, now)
            assert again == actions, "INV-10: the same events give the same actions"
            assert [type(a) for a in again] == [type(a) for a in actions], "INV-10"

    return play


@pytest.mark.parametrize("evict", POLICIES)
@settings(
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_drawn_histories(duel: Callable[..., None], evict: type, data: st.DataObject) -> None:
    """INV-1 to INV-7: books balance, each lease and move is answered once, nobody waits for
    ever; INV-10 for the same history. A failure is shrunk to a short one."""
    duel(evict, lambda low, high: data.draw(st.integers(low, high)), 40)


@pytest.mark.parametrize("evict", POLICIES)
def test_seeded_histories(duel: Callable[..., None], evict: type) -> None:
    """INV-1 to INV-7 and INV-10 once more, for many longer histories; the seed names a failure."""
    for seed in range(HISTORIES):
        try:
            duel(evict, Random(f"{evict.__name__} {seed}").randint, 80)
        except Exception as error:
            error.add_note(f"policy {evict.__name__}, seed {seed}")
            raise
    assert HISTORIES * len(POLICIES) >= 1500
