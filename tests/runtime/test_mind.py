"""The core's thread: one history whoever calls, and an end that everybody hears of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tiermem.core.messages import Action, Event, Forget
from tiermem.errors import RuntimeFault, TiermemError, TimedOut
from tiermem.runtime.executor import RuntimeExecutor
from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.mind import Mind


class Brain:
    """Remembers what it was told, by which thread; breaks at a block of its choice."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self.breaks_at = -1

    def on(self, event: Event, now: int) -> list[Action]:
        assert isinstance(event, Forget)
        if event.blocks[0] == self.breaks_at:
            raise KeyError("broken")
        self.seen.append((event.blocks[0], threading.current_thread().name))
        return []


class World:
    def __init__(self, arena: Any) -> None:
        self.brain = Brain()
        self.failed: list[TiermemError] = []
        self.executor = RuntimeExecutor(Inventory({"dram": arena(4096)}, Names()))
        self.mind = Mind(self.brain, self.executor, (), self.failed.append)
        self.mind.start()


@pytest.fixture
def world(arena: Callable[..., Any]) -> Iterator[World]:
    made = World(arena)
    yield made
    made.mind.end(5)
    made.executor.close()


def test_events_of_many_threads_are_one_history(world: World) -> None:
    """Each exactly once, those of one caller in their order, all on one thread."""

    def post(start: int) -> None:
        for number in range(start, start + 200):
            world.mind.post(Forget((number,)))

    threads = [threading.Thread(target=post, args=(1000 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.mind.ask(lambda: None, 10, "no answer")
    numbers = [number for number, _ in world.brain.seen]
    assert sorted(numbers) == sorted(1000 * index + i for index in range(4) for i in range(200))
    for index in range(4):
        own = [number for number in numbers if number // 1000 == index]
        assert own == sorted(own)
    assert {name for _, name in world.brain.seen} == {"tiermem-core"}


def test_who_asks_waits_for_the_end(world: World) -> None:
    """What was answered is asked again after everything that happens."""
    ready: list[int] = []
    waiter = threading.Thread(
        target=lambda: world.mind.ask(lambda: lambda: bool(ready), 10, "no answer")
    )
    waiter.start()
    world.mind.post(Forget((1,)))
    waiter.join(0.05)
    assert waiter.is_alive()
    world.mind.call(lambda: ready.append(1))
    waiter.join(10)
    assert not waiter.is_alive()
    with pytest.raises(TimedOut, match=r"it never ended within 0\.05 s"):
        world.mind.ask(lambda: lambda: False, 0.05, "it never ended")


def test_a_core_that_breaks_is_told_to_everybody(world: World) -> None:
    """Who waits, who comes later, and whoever is to be told once."""
    world.brain.breaks_at = 7
    world.mind.call(lambda: world.mind.post_now(Forget((7,))))
    with pytest.raises(RuntimeFault, match="the core stopped: KeyError: 'broken'"):
        world.mind.ask(lambda: lambda: False, 10, "no answer")
    with pytest.raises(RuntimeFault, match="KeyError"):
        world.mind.post(Forget((8,)))
    assert not world.mind.usable
    assert [type(error) for error in world.failed] == [RuntimeFault]


def test_after_the_end_nothing_is_taken(world: World) -> None:
    """Ending twice is ending once; who calls later is told."""
    world.mind.end(5)
    world.mind.end(5)
    with pytest.raises(RuntimeFault, match="closed"):
        world.mind.post(Forget((1,)))
