"""What a policy sees and is asked: the View, the order of questions, and Parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.messages import Hint
from tiermem.core.policy import Found, Parts, View
from tiermem.core.table import BlockTable
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Cheapest, NoPrefetch, Obey, Waterfall

Worlds = Callable[..., Any]
Policies = Callable[..., Any]


class Witness(Waterfall):
    """A waterfall that writes down what it was asked, and what it was shown."""

    def __init__(self) -> None:
        super().__init__(ahead=0.0)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.views: list[View] = []

    def _note(self, name: str, view: View, *arguments: Any) -> None:
        self.views.append(view)
        self.asked.append((name, arguments))

    def admit(self, blocks: Sequence[int], at: str, view: View) -> Sequence[str]:
        self._note("admit", view, tuple(blocks), at)
        return super().admit(blocks, at, view)

    def demote(self, blocks: Sequence[int], tier: str, view: View) -> Sequence[str | None]:
        self._note("demote", view, tuple(blocks), tier)
        return super().demote(blocks, tier, view)

    def reuse(self, found: Sequence[Found], total_bytes: int, at: str, view: View) -> int:
        seen = tuple((run.tier, run.blocks, run.nbytes) for run in found)
        self._note("reuse", view, seen, total_bytes, at)
        return super().reuse(found, total_bytes, at, view)


def test_the_questions_and_their_arguments(world: Worlds) -> None:
    """INV-9: ids, names, sizes and the View, nothing else; each question at its own moment."""
    place = Witness()
    both = world({"hbm": 8, "dram": 90}, place=place)
    both.write(1, [1, 2], size=2)
    both.write(2, [3], size=4)
    both.write(3, [4], size=4)
    both.finish(both.acquire(4, [1, 2, 9], size=2))
    assert place.asked == [
        ("admit", ((1, 2), "hbm")),
        ("admit", ((3,), "hbm")),
        ("demote", ((2, 1), "hbm")),
        ("admit", ((4,), "hbm")),
        ("demote", ((3, 4), "hbm")),
        ("reuse", ((("dram", 2, 4),), 6, "hbm")),
    ]
    assert {type(view) for view in place.views} == {View}


def test_the_view_is_what_is(world: Worlds) -> None:
    """Used, free, where and now follow the table and the clock."""
    both = world({"hbm": 4, "dram": 9})
    both.write(1, [1, 2])
    view = both.controller.view
    assert (view.used_bytes("hbm"), view.free_bytes("hbm"), view.free_bytes("dram")) == (2, 2, 9)
    assert (view.where(1), view.where(9)) == (("hbm",), ())
    assert view.now == both.now
    assert view.topology.below("hbm") == ("dram",)


def test_the_view_offers_nothing_that_changes(world: Worlds) -> None:
    """INV-9: its public names are five questions and the time; none of the answers can be
    written to, and there is no room for anything else on it."""
    view = world({"hbm": 4, "dram": 9}).controller.view
    public = {name for name in dir(view) if not name.startswith("_")}
    assert public == {"free_bytes", "used_bytes", "where", "recompute_ns", "now", "topology"}
    assert isinstance(view.where(1), tuple)
    with pytest.raises(AttributeError):
        view.future = ()
    with pytest.raises(AttributeError):  # FrozenInstanceError is one
        view.topology.tiers = ()


def test_recompute_is_known_where_somebody_can_compute(machine: Policies) -> None:
    """Without a model blocks cannot be made again (None); with one the estimate is passed on."""
    topology = machine({"hbm": 4})
    table = BlockTable({"hbm": 4})
    assert View(table, topology).recompute_ns(0, 10) is None
    assert View(table, topology, lambda before, new: 100 * before + new).recompute_ns(3, 10) == 310


def test_parts_make_one_order_per_tier() -> None:
    """Each tier has its own eviction order, made for its capacity, and always the same object."""
    made: list[int] = []

    class Noted(LRU):
        def __init__(self, capacity: int) -> None:
            made.append(capacity)
            super().__init__(capacity)

    policy = Parts(Noted, Waterfall(), NoPrefetch(), {"hbm": 40, "dram": 90})
    assert made == [40, 90]
    assert policy.evict("hbm") is policy.evict("hbm")
    assert policy.evict("hbm") is not policy.evict("dram")


def test_parts_pass_every_question_on(machine: Policies) -> None:
    """Parts answers as its pieces do, and by default touches the tail of a request first."""
    topology = machine({"hbm": 4, "dram": 9})
    view = View(BlockTable({"hbm": 4, "dram": 9}), topology)
    policy = Parts(LRU, Waterfall(True, 0.25), Obey(), {"hbm": 4, "dram": 9})
    assert policy.touch_order == "reverse"
    assert policy.demote_ahead == 0.25
    assert policy.admit([1], "hbm", view) == ("dram",)
    assert policy.demote([1, 2], "hbm", view) == ["dram", "dram"]
    assert policy.site(("hbm", "dram"), view) == "hbm"
    assert tuple(policy.prefetch(Hint((3, 4), "hbm"), view)) == (3, 4)


@pytest.mark.parametrize("place", [Waterfall, Cheapest])
def test_a_policy_answers_seven_names(place: Any) -> None:
    """The whole protocol, for whoever writes a policy without Parts."""
    policy = Parts(LRU, place(), NoPrefetch(), {"hbm": 4})
    names = ("admit", "demote", "reuse", "site", "prefetch", "evict", "touch_order")
    assert [name for name in names if not hasattr(policy, name)] == []


@pytest.mark.parametrize("order", [[77, 1, 2], [1, 1, 1, 2, 2], [2, 99, 1, 2]])
def test_a_wrong_eviction_order_is_only_unwise(world: Worlds, order: list[int]) -> None:
    """A policy that names strangers, or a block twice, breaks nothing: those are skipped."""

    class Wrong(LRU):
        def victims(self) -> Any:
            return iter(order)

    hbm = world({"hbm": 2}, evict=Wrong)
    hbm.write(1, [1, 2])
    hbm.acquire(2, [3, 4])
    assert hbm.used("hbm") == 2
    assert hbm.where(1) == hbm.where(2) == ()


def test_a_site_that_cannot_run_is_not_taken(machine: Policies) -> None:
    """The policy chooses among the tiers that can; a stray answer falls back to the first."""

    class Elsewhere(Waterfall):
        def site(self, tiers: Sequence[str], view: View) -> str:
            return "moon"

    capacities = {"hbm": 4, "dram": 9}
    for place, wanted in ((Elsewhere(), "dram"), (Waterfall(), "dram")):
        policy = Parts(LRU, place, NoPrefetch(), capacities)
        controller = Controller(machine(capacities), capacities, policy)
        assert controller.site(("dram", "hbm")) == wanted
