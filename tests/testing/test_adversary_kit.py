"""The adversary finds what is broken: each fault that is planted here, by the rule it breaks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.messages import Acquire, Action, Commit, Done, Drop, Event, Move, Ready, Release
from tiermem.core.policy import Parts
from tiermem.models.link import Link
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Obey, Waterfall
from tiermem.testing.adversary import Adversary

CAPACITIES = {"hbm": 14, "dram": 18}
MACHINE = Topology(
    (Tier("hbm", "hbm", 14, 1e9, 1e9, 0), Tier("dram", "dram", 18, 1e9, 1e9, 0)),
    (Link("wire", ("hbm", "dram"), 1e9, True, 0),),
)


class Faulty:
    """A controller with a fault planted after each answer."""

    def __init__(self, inner: Controller, plant: Callable[[Controller, Event, list[Any]], Any]):
        self.inner, self.plant = inner, plant
        self.table, self.leases = inner.table, inner.leases

    def on(self, event: Event, now: int) -> list[Action]:
        actions = self.inner.on(event, now)
        self.plant(self.inner, event, actions)
        return actions


def lose_a_byte(controller: Controller, event: Event, actions: list[Any]) -> None:
    if isinstance(event, Release):
        controller.table.rooms["hbm"].used_bytes -= 1


def say_nothing(controller: Controller, event: Event, actions: list[Any]) -> None:
    actions[:] = [action for action in actions if not isinstance(action, Ready)]


def say_it_twice(controller: Controller, event: Event, actions: list[Any]) -> None:
    actions += [action for action in actions if isinstance(action, Ready)]


def repeat_a_move(controller: Controller, event: Event, actions: list[Any]) -> None:
    actions += [action for action in actions if isinstance(action, Move)]


def promise_too_much(controller: Controller, event: Event, actions: list[Any]) -> None:
    for index, action in enumerate(actions):
        if isinstance(action, Ready):
            asked = len(controller.leases[action.lease].blocks)
            actions[index] = Ready(action.lease, (("hbm", asked),))


def lose_a_copy(controller: Controller, event: Event, actions: list[Any]) -> None:
    actions[:] = [action for action in actions if not isinstance(action, Drop)]


def unpin(controller: Controller, event: Event, actions: list[Any]) -> None:
    for action in actions:
        if isinstance(action, Ready):
            lease = controller.leases[action.lease]
            room = controller.table.rooms[lease.at]
            room.unpin(room.copies[lease.blocks[0]])


FAULTS = {
    lose_a_byte: "INV-1",
    say_nothing: "INV-6",
    say_it_twice: "INV-6",
    repeat_a_move: "INV-5",
    promise_too_much: "a hit is readable",
    lose_a_copy: "INV-4",
    unpin: "INV-3",
}


def opponent(seed: int, *, may_fail: bool = True) -> Adversary:
    policy = Parts(LRU, Waterfall(True, 0.0), Obey(), CAPACITIES)
    draw = Random(seed).randint
    return Adversary(MACHINE, CAPACITIES, policy, draw, may_fail=may_fail)


@pytest.mark.parametrize("plant", FAULTS)
def test_a_planted_fault_is_found(plant: Any) -> None:
    """Each broken rule is named by its number, in some history of a few."""
    found = []
    for seed in range(20):
        adversary = opponent(seed)
        adversary.controller = Faulty(adversary.controller, plant)  # type: ignore[assignment]
        try:
            adversary.play(40)
        except AssertionError as error:
            found.append(str(error))
    assert any(FAULTS[plant] in text for text in found), found


def test_a_sound_controller_passes() -> None:
    """The same histories without a fault raise nothing, and are worth something: they hold every
    kind of event and moves that fail."""
    seen: set[type] = set()
    failed = 0
    for seed in range(20):
        adversary = opponent(seed)
        adversary.play(40)
        seen |= {type(event) for _, event, _ in adversary.history}
        answers = [event for _, event, _ in adversary.history if isinstance(event, Done)]
        failed += sum(not answer.ok for answer in answers)
    assert {Acquire, Commit, Release, Done} < seen
    assert failed > 5


def test_failures_can_be_left_out() -> None:
    """`may_fail=False`: every move succeeds."""
    for seed in range(10):
        adversary = opponent(seed, may_fail=False)
        adversary.play(40)
        assert all(e.ok for _, e, _ in adversary.history if isinstance(e, Done))


def test_a_history_is_its_seed() -> None:
    """The same dice make the same history, which can so be played again."""
    one, other = opponent(7), opponent(7)
    one.play(40)
    other.play(40)
    assert one.history == other.history
    assert len(one.history) > 20
