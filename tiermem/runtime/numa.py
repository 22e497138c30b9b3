"""The machine's memory nodes, those without a CPU (CXL memory) among them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tiermem.errors import TierUnavailable
from tiermem.units import format_bytes

_NODES = Path("/sys/devices/system/node")
_DAX = Path("/sys/bus/dax/devices")


class NumaNode(NamedTuple):
    """One node as the kernel lists it."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int
    free_bytes: int

    @property
    def memory_only(self) -> bool:
        """Memory without a CPU of its own, as a CXL expander is shown."""
        return not self.cpus and self.memory_bytes > 0

    def __str__(self) -> str:
        """`node 2 (memory only, 60.1 of 64 GiB free)`."""
        kind = "memory only" if self.memory_only else f"{len(self.cpus)} CPUs"
        free, whole = format_bytes(self.free_bytes), format_bytes(self.memory_bytes)
        return f"node {self.id} ({kind}, {free} of {whole} free)"


def nodes(folder: Path = _NODES) -> list[NumaNode]:
    """Every node that is online, by number; none where the kernel does not say.

    Free bytes count the page cache too: the kernel lets go of it for whoever needs the memory.
    """
    found = []
    for place in folder.glob("node[0-9]*"):
        memory = (place / "meminfo").read_text(encoding="ascii")
        cpus = _numbers((place / "cpulist").read_text(encoding="ascii"))
        free = _kilobytes(memory, "MemFree") + _kilobytes(memory, "Inactive(file)")
        total = _kilobytes(memory, "MemTotal")
        found.append(NumaNode(int(place.name[4:]), cpus, total, free))
    return sorted(found)


def require_node(node: int, whose: str, folder: Path = _NODES, dax: Path = _DAX) -> NumaNode:
    """The node called `node`; `TierUnavailable` says which there are instead.

    -1 is what the kernel answers for a device whose node it does not know. It is no node, and
    above all it is not node 0. A CXL device that is no memory of the system yet is named too.
    """
    known = {each.id: each for each in nodes(folder)}
    if node in known:
        return known[node]
    listing = ", ".join(map(str, known.values())) or "none that the kernel lists"
    what = "node -1 means that the kernel does not know it" if node == -1 else f"no node {node}"
    devices = [
        f"; {place.name} ({_on(device_node(place))}) is no system memory yet: daxctl"
        f" reconfigure-device --mode=system-ram {place.name}"
        for place in sorted(dax.glob("dax*"))
        if (place / "driver").resolve().name != "kmem"
    ]
    raise TierUnavailable(
        f"{whose} is unavailable: {what}; name one of: {listing}{''.join(devices)}"
    )


def device_node(device: Path) -> int | None:
    """The node that a device's own folder in /sys names (`target_node` of a DAX device, else
    `numa_node`); None where the kernel does not know it and somebody has to be asked."""
    for name in ("target_node", "numa_node"):
        try:
            number = int((device / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if number >= 0:
            return number
    return None


def _on(node: int | None) -> str:
    return "its node is unknown: ask the maker" if node is None else f"to be node {node}"


def _numbers(text: str) -> tuple[int, ...]:
    """`0-2,5` as (0, 1, 2, 5)."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _kilobytes(text: str, name: str) -> int:
    match = re.search(rf"{re.escape(name)}:\s+(\d+) kB", text)
    return int(match[1]) * 1024 if match else 0
