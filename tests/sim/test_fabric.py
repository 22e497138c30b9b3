"""Bytes on shared wires: processor sharing, slowest hop, max-min fairness, by hand.

Rates are in bytes per nanosecond here (1e9 bytes/s is 1), so a flow of 1,000 bytes alone on a wire
of rate 1 takes 1,000 ns.
"""

from __future__ import annotations

from itertools import product

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.models.link import Link
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.sim.fabric import Fabric

FAST = 1e15
Transfer = tuple[int, str, str, int]  # start in ns, source, target, bytes


def machine(
    wires: dict[str, float], *, duplex: bool = True, setup_ns: int = 0, read: float = FAST
) -> Topology:
    """Tiers that are only as slow as the wire that leads to each."""
    kinds = ("hbm", "dram", "nvme", "cxl")
    tiers = [
        Tier(name, kind, 10**9, read, FAST, 0) for name, kind in zip(wires, kinds, strict=False)
    ]
    links = [
        Link(f"to {name}", (name, "host"), rate * 1e9, duplex, setup_ns if rate < 1e3 else 0)
        for name, rate in wires.items()
    ]
    return Topology(tuple(tiers), tuple(links))


def play(topology: Topology, transfers: list[Transfer]) -> tuple[list[int], Fabric]:
    """When each transfer ends."""
    environment = simpy.Environment()
    fabric = Fabric(environment, topology.stations)
    ends = [-1] * len(transfers)

    def begin(index: int) -> None:
        _, source, target, nbytes = transfers[index]

        def finished() -> None:
            assert ends[index] == -1, "INV-5: a transfer ends once"
            ends[index] = int(environment.now)

        fabric.start(topology.route(source, target), nbytes, finished)

    for index, (start, *_) in enumerate(transfers):
        timeout = environment.timeout(start)
        timeout.callbacks.append(lambda _, index=index: begin(index))
    environment.run()
    return ends, fabric


WIRE = machine({"hbm": 1e6, "dram": 1.0})
UP = ("dram", "hbm")


def test_one_alone_takes_setup_and_bytes() -> None:
    """Set-up, then bytes at the pace of the wire; `Topology.time_ns` says the same."""
    slow = machine({"hbm": 1e6, "dram": 1.0}, setup_ns=70)
    assert play(slow, [(5, *UP, 1000)])[0] == [5 + 70 + 1000]
    assert slow.time_ns(*UP, 1000) == 1070


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("setup_ns", [0, 70])
def test_equal_transfers_that_start_together_end_together(count: int, setup_ns: int) -> None:
    """Two of t each end at 2t, n of them at n t, exactly; so does their set-up."""
    wire = machine({"hbm": 1e6, "dram": 1.0}, setup_ns=setup_ns)
    ends, _ = play(wire, [(0, *UP, 1000)] * count)
    assert ends == [count * (1000 + setup_ns)] * count


def test_unequal_transfers_by_hand() -> None:
    """A of 1,000 alone until 500, then with B of 400 at half the pace: B needs 800, until 1,300;
    A has 100 left then, and the wire to itself: 1,400."""
    assert play(WIRE, [(0, *UP, 1000), (500, *UP, 400)])[0] == [1400, 1300]


def test_the_slowest_hop_decides() -> None:
    """Fault B54: a 60 B/ns pool behind a 25 B/ns GPU link gives 25; the tier's read side counts
    as a hop too."""
    pool = machine({"hbm": 25.0, "cxl": 60.0})
    assert play(pool, [(0, "cxl", "hbm", 600_000)])[0] == [24_000]
    drive = machine({"hbm": 25.0, "nvme": 60.0}, read=6e9)
    assert play(drive, [(0, "nvme", "hbm", 600_000)])[0] == [100_000]


@pytest.mark.parametrize(("last_bytes", "ends"), [(3000, [2000] * 3), (6000, [2000, 2000, 3500])])
def test_three_flows_over_two_wires(last_bytes: int, ends: list[int]) -> None:
    """Max-min by hand: X of rate 1 carries f1 and f2, Y of rate 2 carries f2 and f3. X is the
    tightest, so f1 = f2 = 0.5, and f3 gets the 1.5 that Y has left; alone it gets 2."""
    topology = machine({"hbm": 2.0, "dram": 1e6, "nvme": 1.0})
    flows = [("nvme", "dram", 1000), ("nvme", "hbm", 1000), ("dram", "hbm", last_bytes)]
    assert play(topology, [(0, *flow) for flow in flows])[0] == ends


def test_traffic_of_two_tiers_contends_for_the_wire_they_share() -> None:
    """DRAM and NVMe both feed the GPU over its one link: together each gets half of it."""
    topology = machine({"hbm": 10.0, "dram": 100.0, "nvme": 100.0})
    flows: list[Transfer] = [(0, "dram", "hbm", 10_000), (0, "nvme", "hbm", 10_000)]
    assert play(topology, flows[:1])[0] == [1000]
    assert play(topology, flows)[0] == [2000, 2000]


@pytest.mark.parametrize(("duplex", "ends"), [(True, [1000, 1000]), (False, [2000, 2000])])
def test_opposite_directions(duplex: bool, ends: list[int]) -> None:
    """A full-duplex link carries both at full pace; a half-duplex one shares it."""
    topology = machine({"hbm": 1e6, "dram": 1.0}, duplex=duplex)
    assert play(topology, [(0, "dram", "hbm", 1000), (0, "hbm", "dram", 1000)])[0] == ends


def test_traffic_that_shares_nothing_does_not_meet() -> None:
    """DRAM to CXL goes on at its own pace while NVMe feeds HBM."""
    topology = machine({"hbm": 1.0, "dram": 2.0, "nvme": 1.0, "cxl": 2.0})
    assert play(topology, [(0, "nvme", "hbm", 1000), (0, "dram", "cxl", 1000)])[0] == [1000, 500]


@pytest.mark.parametrize("nbytes", [1_000, 1_000_000_000])
def test_events_do_not_grow_with_bytes(nbytes: int) -> None:
    """One event for a flow alone, however large; two that start together and end together: one
    for the end, and one for the alarm that came too early because the second slowed the first."""
    assert play(WIRE, [(0, *UP, nbytes)])[1].events == 1
    assert play(WIRE, [(0, *UP, nbytes)] * 2)[1].events == 2


def test_flows_one_after_another_cost_one_event_each() -> None:
    """Fault B46: what is over leaves nothing behind in the queue."""
    assert play(WIRE, [(index * 1001, *UP, 1000) for index in range(20)])[1].events == 20


TIERS = ("hbm", "dram", "nvme", "cxl")
transfers = st.lists(
    st.tuples(
        st.integers(0, 3_000),
        st.sampled_from([(a, b) for a, b in product(TIERS, TIERS) if a != b]),
        st.integers(1, 5_000),
    ),
    min_size=1,
    max_size=12,
)
rates = st.tuples(*[st.sampled_from([0.5, 1.0, 3.0, 8.0])] * 4)


@settings(deadline=None, max_examples=100)
@given(transfers=transfers, rates=rates, duplex=st.booleans())
def test_no_wire_carries_more_than_it_can(
    transfers: list[tuple[int, tuple[str, str], int]], rates: tuple[float, ...], duplex: bool
) -> None:
    """Bytes are conserved: every flow ends, none before its bytes could pass the slowest hop, and
    in any stretch of time a station carries no more than its rate allows."""
    topology = machine(dict(zip(TIERS, rates, strict=True)), duplex=duplex)
    flows: list[Transfer] = [(start, *way, nbytes) for start, way, nbytes in transfers]
    ends, _ = play(topology, flows)
    slack = len(flows)  # each change may round to a whole nanosecond
    for end, (start, source, target, nbytes) in zip(ends, flows, strict=True):
        assert end + slack >= start + topology.time_ns(source, target, nbytes)
    for at, station in enumerate(topology.stations):
        spans = [
            (start, end, nbytes)
            for end, (start, source, target, nbytes) in zip(ends, flows, strict=True)
            if at in topology.route(source, target).stations
        ]
        for (first, *_), (_, last, _) in product(spans, spans):
            if last <= first:
                continue
            inside = sum(n for start, end, n in spans if first <= start and end <= last)
            assert inside <= (last - first + slack) * station.bytes_per_s / 1e9


@settings(deadline=None, max_examples=100)
@given(sizes=st.lists(st.integers(1, 9_999), min_size=1, max_size=12))
def test_a_busy_wire_is_never_idle(sizes: list[int]) -> None:
    """Work is conserved: flows that start together on one wire are through after all their bytes,
    and end in the order of their sizes."""
    ends, _ = play(WIRE, [(0, *UP, size) for size in sizes])
    assert max(ends) == pytest.approx(sum(sizes), abs=len(sizes))
    pairs = sorted(zip(sizes, ends, strict=True))
    assert [end for _, end in pairs] == sorted(ends)
