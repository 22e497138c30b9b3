"""From sizes and places, as a user writes them, to the stores of a memory, fastest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from tiermem.core.chosen import make_policy
from tiermem.core.driver import Tap
from tiermem.core.policy import Parts, Policy
from tiermem.errors import InputError, UnknownName
from tiermem.offload import checks
from tiermem.runtime.device import DeviceArena
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.host import HostArena
from tiermem.runtime.stores import Store
from tiermem.units import parse_bytes

Size = str | int


class More(TypedDict, total=False):
    """What a machine may have beyond host memory and a disk.

    device, device_bytes   a CUDA device and what of it to use: the tier `hbm`, above `dram`
    cxl, cxl_bytes         the NUMA node of CXL memory, and what of it: the tier `cxl`
    pin                    pin the host memory for CUDA (as it is by itself with a device)
    timeout_s              how long a call may wait for room or for a device; 30 by itself
    taps                   who sees every event with its actions
    """

    device: str | int | None
    device_bytes: Size | None
    cxl: int | None
    cxl_bytes: Size | None
    pin: bool
    timeout_s: float
    taps: Sequence[Tap]


def stores_of(
    host: Size | None,
    disk: str | PathLike[str] | None,
    disk_bytes: Size | None,
    identity: str,
    more: More,
) -> dict[str, Store]:
    """The stores by the names of their tiers: hbm, dram, cxl, nvme.

    `InputError` for a place without a size or a size without a place; what a store refuses (more
    than the machine has, a missing node) it refuses here, before anything is offloaded.
    """
    for key in more:
        if key not in More.__annotations__:
            raise UnknownName("setting of TieredMemory", key, More.__annotations__)
    checks.text(identity, "identity")
    device, device_bytes = _pair("device", more.get("device"), more.get("device_bytes"))
    node, node_bytes = _pair("cxl", more.get("cxl"), more.get("cxl_bytes"))
    place = None if disk is None else checks.folder(disk, "disk")
    folder, folder_bytes = _pair("disk", place, disk_bytes)
    if host is None and device is None:
        raise InputError("a memory needs a tier that tensors can be used in: give host= a size")
    stores: dict[str, Store] = {}
    try:
        if device is not None:
            stores["hbm"] = DeviceArena(device_bytes, device)
        if host is not None:
            pin = more.get("pin", device is not None)
            stores["dram"] = HostArena(parse_bytes(host, key="host"), pin=pin)
        if node is not None:
            stores["cxl"] = HostArena(node_bytes, name="cxl", node=node, bind="preferred")
        if folder is not None:
            stores["nvme"] = FileStore(folder, folder_bytes, identity=identity)
    except BaseException:
        for store in stores.values():
            store.close()
        raise
    return stores


def rooms_of(stores: Mapping[str, Store]) -> dict[str, int]:
    """What the blocks of each tier may take, in bytes; of files, headers taken off."""
    return {
        name: int(getattr(store, "usable_bytes", store.capacity_bytes))
        for name, store in stores.items()
    }


def exact(policy: str | Policy, rooms: Mapping[str, int]) -> str | Policy:
    """The policy as it runs here: an eviction order without a `place` makes room for what is asked
    for and not beyond, so that a tier is full when it can be and `tiermem hits` counts its hits."""
    if not isinstance(policy, str) or "place=" in policy:
        return policy
    made = make_policy(policy, dict(rooms))
    return f"{policy}:place=waterfall/ahead=0" if type(made) is Parts else policy


def _pair(name: str, place: Any, size: Size | None) -> tuple[Any, int]:
    """A place and its size in bytes, or (None, 0)."""
    if (place is None) != (size is None):
        given, missing = (name, f"{name}_bytes") if size is None else (f"{name}_bytes", name)
        raise InputError(f"{given}= is given without {missing}=; a tier has a place and a size")
    return (None, 0) if size is None else (place, parse_bytes(size, key=f"{name}_bytes"))
