"""The loop: the brain's actions go to the body, the body's answers come back, taps see all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.driver import Driver
from tiermem.core.lease import LeaseState
from tiermem.core.messages import Acquire, Action, Commit, Done, Event, Move, Ready, Release, Wake
from tiermem.models.roofline import Lines
from tiermem.sim.executor import SimExecutor
from tiermem.testing.executors import InstantExecutor, ScriptedExecutor
from tiermem.traces.log import Tape

CAPACITIES = {"hbm": 12, "dram": 20, "nvme": 40}


class Echo:
    """A brain that answers an Acquire with a Wake, and the Wake's answer with a Ready."""

    def on(self, event: Event, now: int) -> list[Action]:
        if isinstance(event, Acquire):
            return [Wake(event.lease, now + 100)]
        assert isinstance(event, Done)
        return [Ready(event.id, ())]


def test_each_done_goes_back_to_the_brain() -> None:
    """An action that takes time is answered through the brain, at the body's time."""
    seen: list[tuple[int, Event, list[Action]]] = []
    driver = Driver(Echo(), InstantExecutor(), [lambda *entry: seen.append(entry)])
    driver.post(Acquire(7, (), (), "hbm"))
    driver.run()
    assert seen == [
        (0, Acquire(7, (), (), "hbm"), [Wake(7, 100)]),
        (100, Done(7), [Ready(7, ())]),
    ]


def test_every_tap_sees_every_event() -> None:
    """Taps only listen, and there may be any number of them."""
    one, other = Tape(), Tape()
    driver = Driver(Echo(), InstantExecutor(), (one, other))
    for lease in range(3):
        driver.post(Acquire(lease, (), (), "hbm"))
    driver.run()
    assert len(one.entries) == 6
    assert one.entries == other.entries


def test_run_stops_where_it_is_told() -> None:
    """`until` ends the loop between two answers; what is outstanding goes on at the next call."""
    tape = Tape()
    driver = Driver(Echo(), InstantExecutor(), (tape,))
    for lease in range(3):
        driver.post(Acquire(lease, (), (), "hbm"))
    driver.run(lambda: len(tape.entries) == 4)
    assert len(tape.entries) == 4
    driver.run()
    assert len(tape.entries) == 6


# -- two bodies ----------------------------------------------------------------------------------


class Instant:
    """A cost that nobody is asked for: the controller runs no steps."""

    def times(self, step: Any) -> Lines:
        raise AssertionError("no step was submitted")


def leases(seed: int) -> list[tuple[int, ...]]:
    draw = Random(seed).randint
    starts = [draw(0, 15) for _ in range(60)]
    return [tuple(range(start, start + draw(1, 8))) for start in starts]


def play(body: Any, controller: Controller, seed: int) -> Tape:
    """A lease at a time comes in while moves are under way; whatever is ready is written and let
    go, now at once and now after everything has moved."""
    tape, draw = Tape(), Random(seed).randint
    driver = Driver(controller, body, (tape,))
    for lease, blocks in enumerate(leases(seed)):
        driver.post(Acquire(lease, blocks, (1,) * len(blocks), "hbm"))
        seen = len(tape.entries) + draw(0, 2)
        driver.run(lambda wanted=seen: len(tape.entries) >= wanted)
        if draw(0, 2) == 0:
            driver.run()
        for number, held in list(controller.leases.items()):
            if held.state is LeaseState.READY:
                driver.post(Commit(number))
                driver.post(Release(number))
    driver.run()
    return tape


def contents(controller: Controller) -> dict[str, list[tuple[int, str, int]]]:
    """Every copy of every tier, and the order in which each tier would evict."""
    found: dict[str, Any] = {}
    for name, room in controller.table.rooms.items():
        found[name] = sorted((b, c.state.name, c.nbytes, c.pins) for b, c in room.copies.items())
        found[f"{name} order"] = list(controller._books.orders[name].victims())
    return found


@pytest.mark.parametrize("seed", range(5))
def test_two_bodies_same_order_of_completions(
    machine: Any, make_policy: Callable[..., Any], seed: int
) -> None:
    """INV-12: what the simulator completed, replayed in the same order on a body that does as it
    is told and keeps no time of its own, gives the same actions and the same final table."""
    topology = machine(CAPACITIES)

    def fresh() -> Controller:
        return Controller(topology, CAPACITIES, make_policy(CAPACITIES))

    simulated = fresh()
    tape = play(SimExecutor(topology, Instant()), simulated, seed)
    assert sum(isinstance(a, Move) for _, _, actions in tape.entries for a in actions) > 10

    scripted, told, again = fresh(), ScriptedExecutor(), Tape()
    driver = Driver(scripted, told, (again,))
    for _, event, _ in tape.entries:
        if isinstance(event, Done):
            told.finish(event.id, ok=event.ok, result=event.result)
        else:
            driver.post(event)
    assert [entry[1:] for entry in again.entries] == [entry[1:] for entry in tape.entries]
    assert told.pending == {}
    assert contents(scripted) == contents(simulated)
