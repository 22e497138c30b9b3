"""Host memory as a tier: one mapping of exactly the asked size, filled at once.

The same class is the CXL tier: memory of another node. Everything is there from the start, so a
tier that does not fit is refused when it is made and not in the middle of the work.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Literal

import numpy as np

from tiermem.errors import InputError, TierUnavailable
from tiermem.runtime import pinned
from tiermem.runtime.limits import require_memory
from tiermem.runtime.numa import NumaNode, require_node
from tiermem.runtime.pagemap import Placement, placement
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.spans import Spans
from tiermem.runtime.stores import Buffer, Extent
from tiermem.runtime.syscalls import bind_pages
from tiermem.units import format_bytes

Bind = Literal["strict", "preferred"]

_PAGES_VERIFIED = 1 << 16  # at most, evenly spread: a fraction of a second on any machine
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14, which Python has no name for


class HostArena:
    """`capacity_bytes` of host memory, rounded up to whole granules. Any thread may call.

    `node` binds it to a NUMA node: `strict` for that node or not at all, `preferred` (what a node
    without a `bind` gets) for other nodes too when it is full. `pin` registers the memory
    with CUDA, `lock` keeps it out of swap; what could not be done is in `warnings`.

    Raises `DoesNotFit` for more than the machine or the control group has, `TierUnavailable` for
    a node that is missing, too full for `strict`, or whose binding the kernel refuses.
    """

    kind = "host"

    def __init__(
        self,
        capacity_bytes: int,
        *,
        name: str = "dram",
        node: int | None = None,
        bind: Bind | None = None,
        pin: bool = False,
        lock: bool = False,
    ) -> None:
        if capacity_bytes < 1:
            raise InputError(f"{capacity_bytes} is not a capacity: at least one byte", key=name)
        if node is None and bind is not None:
            raise InputError(f"bind={bind!r} needs a node to bind to", key=name)
        if bind not in (None, "strict", "preferred"):
            raise InputError(f"bind={bind!r} is neither 'strict' nor 'preferred'", key=name)
        self.name = name
        self.capacity_bytes = -(-capacity_bytes // GRANULE_BYTES) * GRANULE_BYTES
        self.node = node
        self.warnings: list[str] = []
        self.pinned_bytes = 0
        self._spans = Spans(self.capacity_bytes)
        self._mutex = threading.Lock()
        require_memory(self.capacity_bytes, f"tier {name!r}")
        target = None if node is None else require_node(node, f"tier {name!r}")
        self._bytes: Buffer | None = self._map(target, strict=bind == "strict")
        self._unpin: Callable[[], object] = lambda: None
        if pin:
            self._pin()
        if lock:
            self._warn(pinned.lock(self._address, self.capacity_bytes))

    @property
    def used_bytes(self) -> int:
        """Bytes that are given out."""
        return self._spans.used_bytes

    def allocate(self, nbytes: int) -> Extent | None:
        """Room for `nbytes`: one span where possible; None when fewer bytes are free, or closed."""
        with self._mutex:
            return None if self._bytes is None else self._spans.allocate(nbytes)

    def free(self, extent: Extent) -> None:
        """Take back what `allocate` gave."""
        with self._mutex:
            self._spans.free(extent)

    def views(self, extent: Extent, nbytes: int) -> list[Buffer]:
        """The first `nbytes` of `extent`, writable, without a copy."""
        whole = self._bytes
        assert whole is not None, f"tier {self.name!r} is closed"
        views = []
        for offset, room in extent:
            taken = min(room, nbytes)
            if taken:
                views.append(whole[offset : offset + taken])
            nbytes -= taken
        assert not nbytes, "more bytes than the extent has"
        return views

    def placement(self) -> Placement:
        """On which nodes the pages lie, as the kernel says now."""
        assert self._bytes is not None, f"tier {self.name!r} is closed"
        return placement(self._address, self.capacity_bytes)

    def close(self) -> None:
        """Give nothing out any more. The memory goes back to the system at once, or with the last
        view that somebody still holds: a view stays valid for as long as it exists."""
        with self._mutex:
            self._unpin()
            self.pinned_bytes = 0
            self._bytes = None

    def _map(self, node: NumaNode | None, *, strict: bool) -> Buffer:
        """The memory, bound before it is filled: a page lies where it is first written."""
        if node is not None and strict and node.free_bytes < self.capacity_bytes:
            raise TierUnavailable(
                f"tier {self.name!r} is unavailable: {format_bytes(self.capacity_bytes)} asked for"
                f" on {node}; ask for less, or bind='preferred'"
            )
        try:
            pages = mmap.mmap(-1, self.capacity_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:  # overcommit is off, or RLIMIT_AS
            raise self._refused("maps", error) from error
        whole: Buffer = np.frombuffer(pages, dtype=np.uint8)
        self._address = whole.ctypes.data
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
        if node is not None:
            self._bind(node, strict=strict)
        try:
            pages.madvise(_POPULATE_WRITE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise self._refused("fills", error) from error
            whole[::GRANULE_BYTES] = 0  # an older kernel
        if node is not None:
            self._verify(node, strict=strict)
        return whole

    def _refused(self, verb: str, error: OSError) -> TierUnavailable:
        asked = format_bytes(self.capacity_bytes)
        return TierUnavailable(
            f"tier {self.name!r} is unavailable: the kernel {verb} no {asked} of host memory:"
            f" {error.strerror}; ask for less, or look at ulimit -v and vm.overcommit_memory"
        )

    def _bind(self, node: NumaNode, *, strict: bool) -> None:
        try:
            bind_pages(self._address, self.capacity_bytes, node.id, strict=strict)
        except OSError as error:
            said = (
                f"the kernel refuses to bind memory to node {node.id}: {error.strerror}"
                " (a container needs CAP_SYS_NICE)"
            )
            if strict:
                raise TierUnavailable(f"tier {self.name!r} is unavailable: {said}") from error
            self._warn(said)

    def _verify(self, node: NumaNode, *, strict: bool) -> None:
        found = placement(self._address, self.capacity_bytes, pages_at_most=_PAGES_VERIFIED)
        elsewhere = found.elsewhere(node.id)
        said = (
            f"{elsewhere:,} pages of tier {self.name!r} lie on other nodes than {node.id}"
            f" (says {found.source})"
        )
        if elsewhere and strict:
            raise TierUnavailable(f"{said}, though the binding is strict")
        self._warn(said if elsewhere else None)

    def _pin(self) -> None:
        done = pinned.pin(self._address, self.capacity_bytes)
        self.pinned_bytes = done.nbytes
        self._warn(done.warning)
        owner = os.getpid()
        # A child of a fork has no CUDA to talk to. An arena that nobody closed is unpinned too.
        unpin = weakref.finalize(self, lambda: done.release() if os.getpid() == owner else None)
        self._unpin = unpin

    def _warn(self, said: str | None) -> None:
        if said is not None:
            self.warnings.append(said)
