"""How much memory this process may have: the machine's, or less if its control group says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tiermem.errors import DoesNotFit
from tiermem.units import format_bytes

_ROOT = Path("/")
# Per version of control groups: where they are mounted, and the files for the limit, for what is
# used, and the line of `memory.stat` that says how much of that is page cache nobody waits for.
_V1 = ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
_V2 = ("sys/fs/cgroup", "memory.max", "memory.current")
_RECLAIMABLE = {_V1: "total_inactive_file", _V2: "inactive_file"}


class Limit(NamedTuple):
    """Memory that somebody grants: `total_bytes`, of which `available_bytes` are left."""

    what: str
    total_bytes: int
    available_bytes: int


def memory_limits(root: Path = _ROOT) -> list[Limit]:
    """The machine's memory, then that of each control group around this process that has a limit.

    Sources: /proc/meminfo (MemTotal, MemAvailable), /proc/self/cgroup and the memory controller's
    files, version 1 or 2. What cannot be read sets no limit.
    """
    found = []
    text = _read(root / "proc/meminfo")
    total, available = _kilobytes(text, "MemTotal"), _kilobytes(text, "MemAvailable")
    if total is not None:
        found.append(Limit("this machine", total, total if available is None else available))
    return found + list(_groups(root))


def require_memory(nbytes: int, whose: str, root: Path = _ROOT) -> None:
    """Raise `DoesNotFit` with both numbers where `nbytes` are more than there is, or than is
    left: memory that is filled at once would end the process otherwise."""
    for limit in memory_limits(root):
        asked = f"{whose}: {format_bytes(nbytes)} ({nbytes:,} bytes) asked for"
        if nbytes > limit.total_bytes:
            raise DoesNotFit(
                f"{asked}, but {limit.what} has {format_bytes(limit.total_bytes)}"
                f" ({limit.total_bytes:,} bytes); ask for less"
            )
        if nbytes > limit.available_bytes:
            raise DoesNotFit(
                f"{asked}, but {limit.what} has {format_bytes(limit.available_bytes)}"
                f" ({limit.available_bytes:,} bytes) left of {format_bytes(limit.total_bytes)};"
                " ask for less, or end what holds the rest"
            )


def _groups(root: Path) -> Iterator[Limit]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = _V1 if "memory" in controllers.split(",") else _V2
        if version is _V2 and (number, controllers) != ("0", ""):
            continue
        mount = root / version[0]
        folder = mount / path.strip("/")
        # Inside a container the path may be the one outside; what is mounted is then the group.
        for place in [folder, *folder.parents]:
            if not place.is_relative_to(mount):
                break
            limit = _group(place, version)
            if limit is not None:
                yield limit


def _group(folder: Path, version: tuple[str, str, str]) -> Limit | None:
    total = _number(_read(folder / version[1]))
    used = _number(_read(folder / version[2]))
    if total is None or used is None or total >= 2**60:  # version 1's word for 'no limit'
        return None
    match = re.search(
        rf"^{_RECLAIMABLE[version]} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE
    )
    reclaimable = int(match[1]) if match else 0
    left = min(total, max(0, total - used + reclaimable))
    return Limit(f"the control group {folder}", total, left)


def _read(path: Path) -> str:
    """The text of a file of the kernel; empty where there is none."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _kilobytes(text: str, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
