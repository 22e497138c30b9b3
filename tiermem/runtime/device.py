"""Device memory as a tier: one tensor of bytes on a CUDA device, given out in spans.

No GPU has run this file yet (docs/status.md). Its tests run its order of streams and events on a
stand-in for CUDA, and on CUDA itself where there is one (marked `gpu`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tiermem.errors import DoesNotFit, InputError, TierUnavailable
from tiermem.runtime.lanes import Copy, Lanes
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.spans import Spans
from tiermem.runtime.stores import Buffer, Extent
from tiermem.units import format_bytes


class DeviceArena:
    """`capacity_bytes` of a CUDA device's memory, rounded up to whole granules.

    `views` are slices of a uint8 tensor on the device. Who runs kernels on them calls `fence`
    afterwards, in the thread that ran them (as `Grant.commit` and `Grant.release` do), so that
    copies come after the kernels and reuse of the memory comes after both.

    Raises `TierUnavailable` without torch, CUDA or this device, `DoesNotFit` for more than the
    device has left.
    """

    kind = "device"

    def __init__(
        self, capacity_bytes: int, device: str | int = "cuda:0", *, name: str = "hbm"
    ) -> None:
        if capacity_bytes < 1:
            raise InputError(f"{capacity_bytes} is not a capacity: at least one byte", key=name)
        self.name = name
        self.capacity_bytes = -(-capacity_bytes // GRANULE_BYTES) * GRANULE_BYTES
        self.device = _device(device, f"tier {name!r}", self.capacity_bytes)
        self.warnings: list[str] = []
        self._spans = Spans(self.capacity_bytes)
        self._mutex = threading.Lock()
        self._bytes: Any = _tensor(self.capacity_bytes, self.device)
        self._lanes = Lanes(self.device)
        self.fetch = self._lanes.fetch

    @property
    def used_bytes(self) -> int:
        """Bytes that are given out."""
        return self._spans.used_bytes

    def allocate(self, nbytes: int) -> Extent | None:
        """Room for `nbytes`: one span where possible; None when fewer bytes are free, or closed.

        Kernels and copies of the last owner may still use it: `views` and the copies below come
        after them."""
        with self._mutex:
            return None if self._bytes is None else self._spans.allocate(nbytes)

    def free(self, extent: Extent) -> None:
        """Take back what `allocate` gave."""
        with self._mutex:
            self._spans.free(extent)

    def views(self, extent: Extent, nbytes: int) -> list[Any]:
        """The first `nbytes` of `extent` as uint8 tensors. What the current stream is given from
        now on comes after every copy into and out of these bytes."""
        self._lanes.follow(extent)
        return self._slices(extent, nbytes)

    def fence(self, extent: Extent) -> None:
        """The current stream's kernels use `extent` up to here; copies come after them."""
        self._lanes.fence(extent)

    def settle(self, extent: Extent) -> None:
        """Wait until nothing on the device uses `extent`: before storage reads or writes it by
        itself (GPUDirect), which knows no streams."""
        self._lanes.settle(extent)

    def copy_out(self, extent: Extent, nbytes: int, targets: Sequence[Buffer]) -> Copy:
        """Copy the first `nbytes` of `extent` to host memory, on the side stream."""
        return self._lanes.down(extent, self._slices(extent, nbytes), targets)

    def copy_in(self, extent: Extent, nbytes: int, sources: Sequence[Buffer]) -> Copy:
        """Copy host memory to the first `nbytes` of `extent`, on the side stream."""
        return self._lanes.up(extent, self._slices(extent, nbytes), sources)

    def close(self) -> None:
        """Wait for what is under way and give the memory back; a view that somebody still holds
        stays valid, and the memory goes with the last one."""
        if self._bytes is None:
            return
        self._lanes.close()
        with self._mutex:
            self._bytes = None
        _let_go()

    def _slices(self, extent: Extent, nbytes: int) -> list[Any]:
        whole = self._bytes
        assert whole is not None, f"tier {self.name!r} is closed"
        found = []
        for offset, room in extent:
            taken = min(room, nbytes)
            if taken:
                found.append(whole[offset : offset + taken])
            nbytes -= taken
        assert not nbytes, "more bytes than the extent has"
        return found


def _device(device: str | int, whose: str, nbytes: int) -> Any:
    """The CUDA device, which has `nbytes` left."""
    try:
        import torch
    except ImportError as error:
        raise TierUnavailable(f"{whose} is unavailable: torch is not installed") from error
    if not torch.cuda.is_available():
        raise TierUnavailable(
            f"{whose} is unavailable: torch {torch.__version__} sees no CUDA device; give the"
            " tier host memory, or look at nvidia-smi"
        )
    found = torch.device(device)
    count = torch.cuda.device_count()
    if found.type != "cuda" or (found.index or 0) >= count:
        raise TierUnavailable(
            f"{whose} is unavailable: no device {device!r}; there are: "
            + ", ".join(f"cuda:{number}" for number in range(count))
        )
    free, total = torch.cuda.mem_get_info(found)
    if nbytes > free:
        raise DoesNotFit(
            f"{whose}: {format_bytes(nbytes)} ({nbytes:,} bytes) asked for, but {found} has"
            f" {format_bytes(free)} ({free:,} bytes) left of {format_bytes(total)}; ask for less"
        )
    return found


def _tensor(nbytes: int, device: Any) -> Any:
    import torch

    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def _let_go() -> None:
    import torch

    torch.cuda.empty_cache()
