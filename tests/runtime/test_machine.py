"""The assumed topology: the tiers that are there, in their order, reachable from each other."""

from __future__ import annotations

from tiermem.runtime.machine import topology_of


def test_tiers_in_their_order() -> None:
    """Kinds, capacities and a route between any two; files are slower than memory."""
    kinds = {"dram": "host", "cxl": "host", "nvme": "file"}
    topology = topology_of(kinds, {"dram": 10, "cxl": 20, "nvme": 30})
    assert topology.names == ("dram", "cxl", "nvme")
    assert [tier.kind for tier in topology.tiers] == ["dram", "cxl", "nvme"]
    assert [tier.capacity_bytes for tier in topology.tiers] == [10, 20, 30]
    up, down = topology.time_ns("nvme", "dram", 1 << 20), topology.time_ns("dram", "cxl", 1 << 20)
    assert up > down > 0


def test_a_device_is_hbm() -> None:
    """Device memory stands for HBM."""
    [tier] = topology_of({"hbm": "device"}, {"hbm": 1}).tiers
    assert tier.kind == "hbm"
