"""Where victims go, what is fetched back, and the wrong parameters that are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.core.messages import Hint
from tiermem.core.policy import View
from tiermem.core.table import BlockTable
from tiermem.errors import InputError
from tiermem.models.link import Link
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.policies.placement import Cheapest, NoPrefetch, Obey, Waterfall

# One byte takes 1 ns from DRAM and 10 ns from NVMe, after 100 ns of set-up for each transfer.
MACHINE = Topology(
    (
        Tier("hbm", "hbm", 10**9, 1e12, 1e12, 0),
        Tier("dram", "dram", 10**9, 1e9, 1e9, 100),
        Tier("nvme", "nvme", 10**9, 1e8, 1e8, 100),
    ),
    tuple(Link(f"to {name}", (name, "host"), 1e12, True, 0) for name in ("hbm", "dram", "nvme")),
)


@dataclass
class Run:
    """Leading blocks found in one tier."""

    tier: str
    blocks: int
    nbytes: int


def view(ns_per_byte: int | None = None) -> View:
    """What the policy sees: computing takes so long per byte, and 50 ns to start."""
    table = BlockTable(dict.fromkeys(MACHINE.names, 10**9))
    if ns_per_byte is None:
        return View(table, MACHINE)
    return View(table, MACHINE, lambda before, new: 50 + ns_per_byte * new)


def test_waterfall_goes_one_tier_down() -> None:
    """HBM to DRAM, DRAM to NVMe; out of the last tier a block is dropped."""
    place = Waterfall()
    assert place.demote([1, 2], "hbm", view()) == ["dram", "dram"]
    assert place.demote([1], "dram", view()) == ["nvme"]
    assert place.demote([1], "nvme", view()) == [None]


def test_waterfall_writes_back_unless_told_to_write_through() -> None:
    """Write-back is the default: a written block gets no second copy."""
    assert tuple(Waterfall().admit([1], "hbm", view())) == ()
    assert tuple(Waterfall(write_through=True).admit([1], "hbm", view())) == ("dram",)
    assert tuple(Waterfall(write_through=True).admit([1], "nvme", view())) == ()


def test_waterfall_fetches_all_and_runs_at_the_top() -> None:
    """Everything found is used, however slow it is to bring."""
    found = [Run("hbm", 2, 20), Run("nvme", 3, 30)]
    assert Waterfall().reuse(found, 90, "hbm", view(0)) == 5
    assert Waterfall().site(("dram", "nvme"), view()) == "dram"


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"write_through": "yes"}, "write_through"),
        ({"write_through": 1}, "write_through"),
        ({"ahead": 1}, "ahead"),
        ({"ahead": -0.1}, "ahead"),
        ({"ahead": True}, "ahead"),
        ({"ahead": "much"}, "ahead"),
        ({"ahead": float("nan")}, "ahead"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], named: str) -> None:
    """One line that names the parameter and what was given."""
    with pytest.raises(InputError, match=named):
        Waterfall(**parameters)


@pytest.mark.parametrize(
    ("ns_per_byte", "blocks"),
    [(0, 2), (1, 2), (2, 6), (9, 6), (20, 9)],
)
def test_cheapest_by_hand(ns_per_byte: int, blocks: int) -> None:
    """Two blocks are here, four in DRAM (400 bytes: 500 ns), three in NVMe (300 bytes: 3,100 ns),
    and 200 bytes are new. Of the 900 bytes not here:

    computing all costs 50 + 900 c; DRAM only 550 + 500 c; both 3,650 + 200 c.
    c = 1: 950, 1,050, 3,850.  c = 2: 1,850, 1,550, 4,050.  c = 9: 8,150, 5,050, 5,450.
    c = 20: 18,050, 10,550, 7,650.
    """
    found = [Run("hbm", 2, 200), Run("dram", 4, 400), Run("nvme", 3, 300)]
    assert Cheapest().reuse(found, 1100, "hbm", view(ns_per_byte)) == blocks


def test_cheapest_never_leaves_out_what_is_here() -> None:
    """A run at the tier itself behind one below is reached by fetching the one below."""
    found = [Run("dram", 1, 100), Run("hbm", 5, 500)]
    assert Cheapest().reuse(found, 600, "hbm", view(1)) == 6
    assert Cheapest().reuse([Run("hbm", 5, 500)], 600, "hbm", view(0)) == 5


def test_cheapest_takes_more_blocks_when_times_are_equal() -> None:
    """100 bytes from DRAM take 200 ns; at 2 ns a byte computing them takes as long."""
    assert Cheapest().reuse([Run("dram", 1, 100)], 100, "hbm", view(2)) == 1
    assert Cheapest().reuse([Run("dram", 1, 100)], 200, "hbm", view(2)) == 1


def test_cheapest_fetches_what_cannot_be_computed() -> None:
    """Without a model there is no recompute, so whatever exists is fetched."""
    assert Cheapest().reuse([Run("nvme", 3, 300)], 900, "hbm", view()) == 3


@given(
    runs=st.lists(
        st.tuples(st.sampled_from(MACHINE.names), st.integers(1, 9), st.integers(1, 900)),
        min_size=1,
        max_size=6,
    ),
    new=st.integers(0, 900),
    ns_per_byte=st.integers(0, 30),
)
def test_cheapest_is_the_least_of_all_cuts(
    runs: list[tuple[str, int, int]], new: int, ns_per_byte: int
) -> None:
    """Trying every number of leading runs finds nothing faster than what was chosen."""
    total = sum(nbytes for _, _, nbytes in runs) + new
    options = {}
    for cut in range(len(runs) + 1):
        fetch = sum(MACHINE.time_ns(t, "hbm", n) for t, _, n in runs[:cut] if t != "hbm")
        left = total - sum(nbytes for _, _, nbytes in runs[:cut])
        options[sum(blocks for _, blocks, _ in runs[:cut])] = fetch + 50 + ns_per_byte * left
    chosen = Cheapest().reuse([Run(*run) for run in runs], total, "hbm", view(ns_per_byte))
    assert options[chosen] == min(options.values())


def test_prefetching_is_a_matter_of_taste() -> None:
    """One brings nothing, the other whatever is hinted at."""
    hint = Hint((1, 2), "hbm")
    assert tuple(NoPrefetch().prefetch(hint, view())) == ()
    assert tuple(Obey().prefetch(hint, view())) == (1, 2)
