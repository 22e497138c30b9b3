"""Routes: which stations a transfer holds, in which order, and how long it takes alone."""

from __future__ import annotations

import pickle

import pytest

from tiermem.errors import InputError, UnknownName
from tiermem.models.link import Link
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology


def tier(name: str, read: float, write: float, latency_ns: int) -> Tier:
    return Tier(name, "dram", 1000, read, write, latency_ns)


TIERS = (
    tier("hbm", 1000e9, 1000e9, 1),
    tier("dram", 200e9, 200e9, 10),
    tier("cxl", 60e9, 60e9, 100),
    tier("nvme", 7e9, 5e9, 1000),
)
PCIE = Link("pcie", ("hbm", "host"), 50e9, True, 20_000)
DDR = Link("ddr", ("dram", "host"), 100e9, False, 0)
CXL = Link("cxl_port", ("cxl", "host"), 30e9, True, 300)
NVME = Link("nvme_port", ("nvme", "host"), 8e9, True, 0)
MACHINE = Topology(TIERS, (PCIE, DDR, CXL, NVME))


def stations(source: str, target: str, machine: Topology = MACHINE) -> list[str]:
    return [machine.stations[at].name for at in machine.route(source, target).stations]


def test_a_route_reads_crosses_and_writes() -> None:
    """Source read side, one direction of each full-duplex link, target write side."""
    assert stations("nvme", "hbm") == [
        "nvme read",
        "nvme_port nvme-host",
        "pcie host-hbm",
        "hbm write",
    ]
    assert stations("hbm", "nvme") == [
        "hbm read",
        "pcie hbm-host",
        "nvme_port host-nvme",
        "nvme write",
    ]


def test_all_traffic_to_the_gpu_shares_its_wire() -> None:
    """From every lower tier to HBM the route holds the one station of the GPU's link."""
    for source in ("dram", "cxl", "nvme"):
        assert "pcie host-hbm" in stations(source, "hbm")
        assert "pcie hbm-host" in stations("hbm", source)


def test_lower_tiers_do_not_touch_the_gpu_wire() -> None:
    """DRAM to CXL uses the CXL port, CXL to NVMe crosses the host; neither uses the GPU's link."""
    assert stations("dram", "cxl") == ["dram read", "ddr", "cxl_port host-cxl", "cxl write"]
    assert stations("cxl", "nvme") == [
        "cxl read",
        "cxl_port cxl-host",
        "nvme_port host-nvme",
        "nvme write",
    ]


def test_half_duplex_is_one_station() -> None:
    """The channels of a DIMM carry both directions over the same station; PCIe does not."""
    assert "ddr" in stations("dram", "hbm")
    assert "ddr" in stations("hbm", "dram")
    assert set(stations("nvme", "hbm")).isdisjoint(stations("hbm", "nvme"))


def test_time_is_setup_and_the_slowest_hop() -> None:
    """7e9 bytes from NVMe at 7 GB/s: 1 s, plus 1000 + 20000 + 1 ns; writing is 5 GB/s."""
    assert MACHINE.time_ns("nvme", "hbm", 7_000_000_000) == 1_000_000_000 + 21_001
    assert MACHINE.time_ns("hbm", "nvme", 5_000_000_000) == 1_000_000_000 + 21_001
    assert MACHINE.time_ns("dram", "cxl", 0) == 10 + 300 + 100
    assert MACHINE.route("cxl", "hbm").bytes_per_s == 30e9


def test_time_is_rounded_up_to_whole_nanoseconds() -> None:
    """One byte at 30 GB/s is a thirtieth of a nanosecond, charged as one."""
    assert MACHINE.time_ns("cxl", "hbm", 1) == 100 + 300 + 20_000 + 1 + 1


def test_the_order_of_tiers_is_the_way_down() -> None:
    """`below` is the waterfall: slower tiers, fastest first, nothing under the last."""
    assert MACHINE.names == ("hbm", "dram", "cxl", "nvme")
    assert MACHINE.below("dram") == ("cxl", "nvme")
    assert MACHINE.below("nvme") == ()
    assert MACHINE.index("cxl") == 2
    assert MACHINE.tier("cxl") is TIERS[2]


def test_fewest_hops_win() -> None:
    """A direct wire is taken even where the way through the host is faster."""
    direct = Link("p2p", ("nvme", "hbm"), 1e9, True, 0)
    machine = Topology(TIERS, (PCIE, DDR, CXL, NVME, direct))
    assert stations("nvme", "hbm", machine) == ["nvme read", "p2p nvme-hbm", "hbm write"]
    assert machine.route("nvme", "hbm").bytes_per_s == 1e9


def test_a_way_through_a_tier_is_a_bounce() -> None:
    """Bytes that pass through DRAM are written to it and read from it, and wait its latency."""
    machine = Topology(
        TIERS[:2] + TIERS[3:],
        (Link("up", ("dram", "hbm"), 50e9, True, 5), Link("down", ("nvme", "dram"), 8e9, True, 7)),
    )
    assert stations("nvme", "hbm", machine) == [
        "nvme read",
        "down nvme-dram",
        "dram write",
        "dram read",
        "up dram-hbm",
        "hbm write",
    ]
    assert machine.route("nvme", "hbm").setup_ns == 1000 + 7 + 10 + 5 + 1


def test_one_tier_needs_no_links() -> None:
    """HBM alone is a machine: nothing below it, two stations."""
    machine = Topology(TIERS[:1])
    assert machine.below("hbm") == ()
    assert [station.name for station in machine.stations] == ["hbm read", "hbm write"]


def test_a_route_to_itself_is_a_mistake_of_ours() -> None:
    """Bytes do not move from a tier to the same tier."""
    with pytest.raises(AssertionError, match="itself"):
        MACHINE.route("hbm", "hbm")


def test_unknown_tiers_are_named() -> None:
    """A misspelt tier is answered with the nearest one."""
    with pytest.raises(UnknownName, match="unknown tier 'nvmee'; did you mean 'nvme'"):
        MACHINE.tier("nvmee")
    with pytest.raises(UnknownName, match="'drum'"):
        MACHINE.route("hbm", "drum")


@pytest.mark.parametrize(
    ("tiers", "links", "message"),
    [
        ((), (), "at least one tier"),
        (TIERS, (PCIE, DDR, CXL), "no links lead from tier 'hbm' to tier 'nvme'"),
        (TIERS[:1] * 2, (), "the name 'hbm' is used twice"),
        (TIERS[:2], (PCIE, DDR, PCIE), "the name 'pcie' is used twice"),
        (TIERS[:2], (PCIE, DDR, CXL), "unknown end of link 'cxl_port' 'cxl'"),
    ],
)
def test_broken_graphs_are_refused(
    tiers: tuple[Tier, ...], links: tuple[Link, ...], message: str
) -> None:
    """No machine, an unreachable tier, a name used twice, a link to nowhere: one line each."""
    with pytest.raises(InputError, match=message):
        Topology(tiers, links)


def test_topologies_compare_and_travel() -> None:
    """Two machines of the same parts are equal, also after a trip to another process."""
    again = pickle.loads(pickle.dumps(MACHINE))
    assert again == MACHINE
    assert again.route("nvme", "hbm") == MACHINE.route("nvme", "hbm")
    assert Topology(TIERS[:1]) != MACHINE
