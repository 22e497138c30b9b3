"""The real body: moves end once, failures are answers, wakes come in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tiermem.core.messages import Deny, Done, Drop, Move, Run, Wake
from tiermem.models.operators import Step
from tiermem.runtime.executor import RuntimeExecutor
from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.mover import Lost, copy_bytes
from tiermem.runtime.stores import FaultKind


class Body:
    """An executor over two tiers, with what it said."""

    def __init__(self, memory: Any, files: Any) -> None:
        self.names = Names()
        self.store = files
        self.inventory = Inventory({"dram": memory, "nvme": files}, self.names)
        self.said: list[Any] = []
        self.blamed: list[tuple[int, Lost]] = []
        self.done: list[Done] = []
        self.executor = RuntimeExecutor(
            self.inventory,
            kernels={"dram": lambda run: run.operator.steps * 2, "nvme": self._fails},
            blame=lambda move, lost: self.blamed.append((move.id, lost)),
            tell=self.said.append,
        )

    def _fails(self, run: Run) -> int:
        raise ValueError("no such kernel")

    def block(self, name: int, nbytes: int = 5000) -> int:
        """A block that lies at dram, full of its name."""
        block = self.names.block(bytes([name]) * 16, nbytes)
        assert self.inventory.allocate("dram", [block]) is None
        copy_bytes([np.full(nbytes, name, np.uint8)], list(self.inventory.views("dram", block)))
        return block

    def submit(self, action: Any) -> None:
        self.executor.submit(action, self.done.append)

    def drain(self) -> list[Done]:
        self.executor.run(lambda: False)
        return self.done


@pytest.fixture
def body(arena: Callable[..., Any], dict_store: Callable[..., Any]) -> Iterator[Body]:
    made = Body(arena(1 << 20), dict_store(1 << 20))
    yield made
    made.store.gate.set()
    made.executor.close()


def test_a_move_carries_its_bytes_and_ends_once(body: Body) -> None:
    """INV-5: one Done for each; the source stays until a Drop says otherwise."""
    one, two = body.block(1), body.block(2)
    body.submit(Move(7, (one, two), "dram", "nvme", 16384, "demote"))
    assert body.drain() == [Done(7)]
    assert body.store.held[bytes([1]) * 16][0] == bytes([1]) * 5000
    assert body.inventory.memory["dram"].used_bytes == 16384
    body.submit(Drop((one,), "dram", "moved"))
    assert body.inventory.memory["dram"].used_bytes == 8192
    body.submit(Drop((two,), "nvme", "forget"))
    assert list(body.store.held) == [bytes([1]) * 16]


def test_half_a_failure_is_told_block_by_block(body: Body) -> None:
    """The answer names the blocks that failed, and the blame says how."""
    one, two = body.block(1), body.block(2)
    body.store.faults[bytes([2]) * 16] = FaultKind.SPACE
    body.submit(Move(7, (one, two), "dram", "nvme", 16384, "demote"))
    assert body.drain() == [Done(7, False, (two,))]
    [(move, lost)] = body.blamed
    assert (move, lost[two].kind) == (7, FaultKind.SPACE)


def test_a_failed_fetch_leaves_no_room_behind(body: Body) -> None:
    """What did not arrive takes no bytes; after a time-out its room is kept from everybody."""
    one, two = body.block(1), body.block(2)
    body.submit(Move(1, (one, two), "dram", "nvme", 16384, "demote"))
    body.drain()
    body.submit(Drop((one, two), "dram", "moved"))
    for kind, used in ((FaultKind.CHECKSUM, 0), (FaultKind.TIMEOUT, 16384)):
        body.store.faults = dict.fromkeys(body.store.held, kind)
        body.submit(Move(2, (one, two), "nvme", "dram", 16384, "fetch"))
        assert body.drain()[-1] == Done(2, False, (one, two))
        assert body.inventory.memory["dram"].used_bytes == used


def test_no_room_is_a_failure(body: Body) -> None:
    """The core never asks for more than there is; should it, the move fails and nothing breaks."""
    big = body.names.block(b"b" * 16, 2 << 20)
    body.submit(Move(1, (big,), "nvme", "dram", 2 << 20, "fetch"))
    assert body.drain() == [Done(1, False, (big,))]
    assert body.blamed[0][1][big].kind is FaultKind.SPACE


def test_an_error_in_a_store_is_an_answer(body: Body) -> None:
    """Even one that should never be: somebody waits for the move's end."""
    body.store.write = None
    body.submit(Move(1, (body.block(1),), "dram", "nvme", 8192, "demote"))
    [done] = body.drain()
    assert not done.ok
    assert "TypeError" in next(iter(body.blamed[0][1].values())).detail


def test_moves_run_side_by_side(body: Body) -> None:
    """One that waits for its device holds up no other."""
    body.store.gate.clear()
    body.submit(Move(1, (body.block(1),), "dram", "nvme", 8192, "demote"))
    body.submit(Wake(2, 0))
    body.submit(Run(3, Step(1, 100, steps=4), "dram"))
    body.executor.run(lambda: len(body.done) == 2)
    assert {done.id for done in body.done} == {2, 3}
    body.store.gate.set()
    assert body.drain()[-1] == Done(1)


def test_a_kernel_runs_where_its_tier_has_one(body: Body) -> None:
    """Its result is the answer; an error in it is an answer too."""
    step = Step(1, 100, steps=4)
    body.submit(Run(1, step, "dram"))
    assert body.drain() == [Done(1, True, 8)]
    body.submit(Run(2, step, "nvme"))
    assert body.drain()[-1] == Done(2, False, "ValueError: no such kernel")


def test_wakes_come_in_time_and_in_order(body: Body) -> None:
    """Never early, and the earlier one first, whatever the order of asking."""
    now = body.executor.now()
    body.submit(Wake(1, now + 40_000_000))
    body.submit(Wake(2, now + 10_000_000))
    assert [done.id for done in body.drain()] == [2, 1]
    assert body.executor.now() >= now + 40_000_000


def test_calls_come_from_any_thread(body: Body) -> None:
    """One queue: what other threads ask is delivered between completions."""
    seen: list[int] = []
    thread = threading.Thread(target=lambda: body.executor.call(lambda: seen.append(1)))
    thread.start()
    thread.join()
    body.drain()
    assert seen == [1]


def test_other_notices_are_passed_on(body: Body) -> None:
    """A notice takes no time and is answered by nobody (INV-5)."""
    body.submit(Deny(3, 5))
    assert body.said == [Deny(3, 5)]
    assert body.executor.outstanding == 0
