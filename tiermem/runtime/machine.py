"""The topology of the tiers at hand, for policies that ask how long a transfer takes.

The rates are those of a shipped description (`h100-ddr5-cxl-nvme`), so they are estimates until
this machine is measured; the core never needs them, only policies such as `cheapest` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiermem.models.link import HOST, Link
from tiermem.models.presets import system
from tiermem.models.tier import Kind
from tiermem.models.topology import Topology

ASSUMED = "h100-ddr5-cxl-nvme"
_KINDS: dict[str, Kind] = {"device": "hbm", "host": "dram", "file": "nvme"}


def topology_of(kinds: Mapping[str, str], capacities_bytes: Mapping[str, int]) -> Topology:
    """A machine with these tiers, fastest first, by the kind of their store; each is linked to
    the host as its like is in the assumed description."""
    assumed = system(ASSUMED).topology
    tiers, links = [], []
    for name, kind in kinds.items():
        like = "cxl" if name == "cxl" else _KINDS[kind]
        tier = next(tier for tier in assumed.tiers if tier.kind == like)
        link = next(link for link in assumed.links if tier.name in link.ends)
        size = max(1, capacities_bytes[name])
        tiers.append(replace(tier, name=name, capacity_bytes=size, compute=None))
        links.append(
            Link(f"{name}_link", (name, HOST), link.bytes_per_s, link.full_duplex, link.setup_ns)
        )
    return Topology(tuple(tiers), tuple(links))
