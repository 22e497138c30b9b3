"""Where pages really lie, asked of the kernel: the node of each, whatever was wished for.

move_pages(2) answers page by page. Where a container forbids it, /proc/self/numa_maps has the
sums of the mapping, neighbours of the same kind included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.syscalls import node_of_pages

_MAPS = Path("/proc/self/numa_maps")


class Placement(NamedTuple):
    """Pages of 4096 bytes by node; -1 counts those that are not there yet. `source`: who said so,
    `move_pages`, `numa_maps` or `unknown`."""

    pages: Mapping[int, int]
    source: str

    def elsewhere(self, node: int) -> int:
        """How many pages lie on other nodes than `node`."""
        return sum(count for at, count in self.pages.items() if at not in (node, -1))


def placement(address: int, nbytes: int, *, pages_at_most: int | None = None) -> Placement:
    """The node of every page from `address` on, or of `pages_at_most` of them, evenly spread."""
    pages = nbytes // GRANULE_BYTES
    step = 1 if pages_at_most is None else max(1, -(-pages // pages_at_most))
    asked = np.arange(address, address + nbytes, step * GRANULE_BYTES, dtype=np.uint64)
    try:
        nodes = np.maximum(node_of_pages(asked), -1)
    except OSError:
        by_node = _by_mapping(address)
        return Placement(by_node, "numa_maps" if by_node else "unknown")
    found, counts = np.unique(nodes, return_counts=True)
    return Placement(dict(zip(found.tolist(), counts.tolist(), strict=True)), "move_pages")


def _by_mapping(address: int, maps: Path = _MAPS) -> dict[int, int]:
    """The counts of the mapping that holds `address`: the last one that begins at or before it."""
    try:
        lines = maps.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    own = [line for line in lines if int(line.split()[0], 16) <= address]
    if not own:
        return {}
    line = max(own, key=lambda line: int(line.split()[0], 16))
    size = re.search(r"kernelpagesize_kB=(\d+)", line)
    small = int(size[1]) // 4 if size else 1
    return {int(node): int(n) * small for node, n in re.findall(r" N(\d+)=(\d+)", line)}
