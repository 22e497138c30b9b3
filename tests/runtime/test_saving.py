"""A flush: what it is about, and when it is done."""

from __future__ import annotations

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.core.messages import Acquire, Adopt, Commit, Done, Move, Release, Save
from tiermem.runtime.inventory import Names
from tiermem.runtime.machine import topology_of
from tiermem.runtime.saving import Saving

PAGE = 4096


def test_from_memory_to_files() -> None:
    """Kept blocks alone, each once, no more than fit; done when they are there or were lost."""
    sizes = {"dram": 8 * PAGE, "nvme": 3 * PAGE}
    topology = topology_of({"dram": "host", "nvme": "file"}, sizes)
    controller = Controller(topology, sizes, make_policy("lru", sizes))
    names = Names()
    kept = [names.block(bytes([i]) * 16, PAGE) for i in range(5)]
    passing = names.block(b"p" * 16, PAGE, keep=False)
    controller.on(Adopt((kept[0],), (PAGE,), "nvme"), 0)
    chain = (*kept[1:], passing)
    controller.on(Acquire(1, chain, (PAGE,) * 5, "dram"), 0)
    controller.on(Commit(1), 0)
    controller.on(Release(1), 0)
    saving = Saving(controller, names, "nvme")
    wanted = saving.wanted()
    assert set(wanted) < set(kept[1:])
    assert len(wanted) == 3
    actions = controller.on(Save(wanted, "nvme"), 0)
    [move] = [action for action in actions if isinstance(action, Move)]
    assert not saving.done(set())
    assert saving.done(set(wanted)), "who is lost is not waited for"
    controller.on(Done(move.id, False, (wanted[0],)), 0)
    assert saving.done({wanted[0]})
    assert saving.failed({wanted[0]}) == 1 + 1, "one did not fit, one was lost"
    assert saving.failed(set(), synced=False) == 1 + 3, "a device that did not sync lost them all"
