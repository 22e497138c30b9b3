"""The host arena: its memory is exactly there, on its node, and goes back."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tiermem.errors import DoesNotFit, InputError, TierUnavailable
from tiermem.runtime import host
from tiermem.runtime.host import HostArena
from tiermem.runtime.numa import NumaNode, nodes
from tiermem.runtime.pagemap import Placement
from tiermem.testing.memory_stores import MemoryStoreTests

MIB = 2**20


class TestHostArena(MemoryStoreTests):
    """The host arena is a memory store."""

    def make(self, capacity_bytes: int) -> HostArena:
        return HostArena(capacity_bytes)


def resident_bytes() -> int:
    text = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGESIZE")


def test_takes_what_was_asked_and_gives_it_back() -> None:
    """65 MiB are 65 MiB (no power of two), resident from the start and gone after close."""
    gc.collect()
    before = resident_bytes()
    arena = HostArena(65 * MIB)
    made = resident_bytes() - before
    arena.close()
    after = resident_bytes() - before
    assert 64.5 * MIB < made < 68 * MIB
    assert after < 3 * MIB


def test_a_view_outlives_the_arena() -> None:
    """What somebody holds stays readable after close; the memory goes with the last view."""
    before = resident_bytes()
    arena = HostArena(64 * MIB)
    extent = arena.allocate(MIB)
    assert extent is not None
    views = arena.views(extent, MIB)
    views[0][:] = 7
    arena.close()
    assert int(views[0].sum()) == 7 * MIB
    assert resident_bytes() - before > 60 * MIB
    with pytest.raises(AssertionError, match="closed"):
        arena.views(extent, MIB)
    del views
    assert resident_bytes() - before < 4 * MIB


def test_more_than_the_machine_is_refused_with_both_numbers() -> None:
    """A tier above the memory there is never comes to be."""
    total = os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES")
    with pytest.raises(DoesNotFit, match=r"tier 'cold'.*1,125,899,906,842,624 bytes.*has .*bytes"):
        HostArena(2**50, name="cold")
    assert total < 2**50


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"capacity_bytes": 0}, "at least one byte"),
        ({"bind": "strict"}, "needs a node"),
        ({"node": 0, "bind": "firmly"}, "neither 'strict' nor 'preferred'"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], said: str) -> None:
    """One clear line for each slip."""
    with pytest.raises(InputError, match=said):
        HostArena(**({"capacity_bytes": MIB} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("node", [-1, 511])
def test_a_missing_node_is_an_unavailable_tier(node: int) -> None:
    """The message names the nodes there are; -1 is not taken for node 0."""
    with pytest.raises(
        TierUnavailable, match=rf"tier 'cxl' is unavailable: .*{node}.* name one of"
    ):
        HostArena(MIB, name="cxl", node=node)


@pytest.mark.skipif(not nodes(), reason="the kernel lists no memory nodes")
@pytest.mark.parametrize("bind", ["strict", "preferred", None])
def test_pages_lie_on_their_node(bind: host.Bind | None) -> None:
    """Every page of a bound arena is on its node, as the kernel says."""
    node = nodes()[0]
    arena = HostArena(8 * MIB, node=node.id, bind=bind)
    assert arena.placement().pages == {node.id: 8 * MIB // 4096}
    assert arena.warnings == []
    arena.close()


def test_strict_asks_the_node_before_it_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full node refuses a strict arena with both numbers, where the kernel would end the
    process; a preferred one overflows, and says how far."""
    full = NumaNode(0, (), 64 * MIB, 2 * MIB)
    monkeypatch.setattr(host, "require_node", lambda node, whose: full)
    with pytest.raises(TierUnavailable, match=r"8 MiB asked for on node 0 \(memory only, 2 MiB"):
        HostArena(8 * MIB, node=0, bind="strict")
    spread = Placement({0: 512, 1: 1536}, "move_pages")
    monkeypatch.setattr(host, "placement", lambda *_, **__: spread)
    arena = HostArena(8 * MIB, node=0, bind="preferred")
    assert arena.warnings == [
        "1,536 pages of tier 'dram' lie on other nodes than 0 (says move_pages)"
    ]


def test_a_refused_binding_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers forbid mbind: strict is unavailable then, preferred goes on with a warning."""

    def refuse(*_: object, strict: bool) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(host, "bind_pages", refuse)
    node = NumaNode(0, (0,), 64 * MIB, 64 * MIB)
    monkeypatch.setattr(host, "require_node", lambda *_: node)
    with pytest.raises(TierUnavailable, match="CAP_SYS_NICE"):
        HostArena(MIB, node=0, bind="strict")
    assert "CAP_SYS_NICE" in HostArena(MIB, node=0).warnings[0]


def test_a_strict_arena_elsewhere_is_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel shows counts, not what was wished for."""
    monkeypatch.setattr(host, "placement", lambda *_, **__: Placement({3: 1}, "move_pages"))
    monkeypatch.setattr(host, "bind_pages", lambda *_, **__: None)
    node = NumaNode(0, (0,), 64 * MIB, 64 * MIB)
    monkeypatch.setattr(host, "require_node", lambda *_: node)
    with pytest.raises(TierUnavailable, match="though the binding is strict"):
        HostArena(MIB, node=0, bind="strict")


def test_an_older_kernel_fills_by_touching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MADV_POPULATE_WRITE every page is written once; another refusal is told."""
    monkeypatch.setattr(host, "_POPULATE_WRITE", 99)
    before = resident_bytes()
    arena = HostArena(16 * MIB)
    assert resident_bytes() - before > 15 * MIB
    arena.close()


def test_threads_share_it() -> None:
    """Allocations from several threads at once never overlap, and all of them come back."""
    arena = HostArena(4 * MIB)
    wrong: list[str] = []

    def work(mark: int) -> None:
        random = np.random.default_rng(mark)
        for _ in range(300):
            nbytes = int(random.integers(1, 200_000))
            extent = arena.allocate(nbytes)
            if extent is None:
                continue
            views = arena.views(extent, nbytes)
            for view in views:
                view[:] = mark
            if any((view != mark).any() for view in views):
                wrong.append(f"thread {mark} found other bytes")
            arena.free(extent)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert arena.used_bytes == 0
