"""Copies between a device and host memory on streams of their own, in the right order by events.

A copy starts after the kernels that its bytes come from and before anybody uses the memory again.
Nothing here waits on the host but `Copy.wait` and `Lanes.settle`: the order is the device's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tiermem.runtime.stores import Buffer, Extent


class Copy:
    """A copy under way. It keeps both ends alive until `wait` has returned."""

    def __init__(self, event: Any, ends: Sequence[Any]) -> None:
        self._event = event
        self._ends: Sequence[Any] = ends

    def done(self) -> bool:
        """Whether the bytes are there."""
        return bool(self._event.query())

    def wait(self) -> None:
        """Return when the bytes are there: before this nobody may look at the target."""
        self._event.synchronize()
        self._ends = ()


class Lanes:
    """Two side streams of one device, one in each direction, and the fences of its memory.

    A fence says: whatever a stream had been given up to then may still use these bytes. Every
    copy leaves one, and whoever ran kernels on the bytes calls `fence`.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._from_numpy: Any = torch.from_numpy
        self.device = device
        self._down: Any = self._cuda.Stream(device=device)
        self._up: Any = self._cuda.Stream(device=device)
        self._mutex = threading.Lock()
        self._fences: list[tuple[int, int, Any]] = []  # first byte, the one after, event

    def fence(self, extent: Extent) -> None:
        """Later copies of `extent`, and later users of its memory, come after all that the
        calling thread's current stream has been given so far."""
        self._record(extent, self._cuda.current_stream(self.device))

    def follow(self, extent: Extent) -> None:
        """What the calling thread's current stream is given from now on comes after every copy
        and kernel that uses `extent` yet."""
        self._queue_behind(extent, self._cuda.current_stream(self.device))

    def settle(self, extent: Extent) -> None:
        """Wait until nothing on the device uses `extent` any more."""
        for event in self._pending(extent):
            event.synchronize()

    def down(self, extent: Extent, views: Sequence[Any], targets: Sequence[Buffer]) -> Copy:
        """Copy the views of `extent`, on the device, to host memory."""
        return self._copy(self._down, extent, self._hosts(targets), views)

    def up(self, extent: Extent, views: Sequence[Any], sources: Sequence[Buffer]) -> Copy:
        """Copy host memory to the views of `extent`, on the device."""
        return self._copy(self._up, extent, views, self._hosts(sources))

    def fetch(self, source: Any, targets: Sequence[Buffer]) -> Copy:
        """Copy a tensor of the caller's (uint8, one dimension, on this device) to host memory,
        after the kernels on the current stream. The caller may let go of the tensor at once: the
        allocator is told that the side stream reads it."""
        stream = self._down
        stream.wait_stream(self._cuda.current_stream(self.device))
        hosts = self._hosts(targets)
        with self._cuda.stream(stream):
            for to, at in pieces(hosts, [source]):
                to.copy_(at, non_blocking=True)
        source.record_stream(stream)
        return Copy(self._marked(stream), (source, hosts))

    def close(self) -> None:
        """Wait for every copy and fence."""
        with self._mutex:
            fences, self._fences = self._fences, []
        for _, _, event in fences:
            event.synchronize()

    def _copy(
        self, stream: Any, extent: Extent, targets: Sequence[Any], sources: Sequence[Any]
    ) -> Copy:
        self._queue_behind(extent, stream)
        with self._cuda.stream(stream):
            for to, at in pieces(targets, sources):
                to.copy_(at, non_blocking=True)
        return Copy(self._record(extent, stream), (targets, sources))

    def _queue_behind(self, extent: Extent, stream: Any) -> None:
        for event in self._pending(extent):
            stream.wait_event(event)

    def _record(self, extent: Extent, stream: Any) -> Any:
        event = self._marked(stream)
        with self._mutex:
            self._fences += [(offset, offset + nbytes, event) for offset, nbytes in extent]
        return event

    def _marked(self, stream: Any) -> Any:
        event = self._cuda.Event(blocking=True)  # who waits for it sleeps
        event.record(stream)
        return event

    def _pending(self, extent: Extent) -> list[Any]:
        """The events of unfinished fences over bytes of `extent`; finished ones are forgotten."""
        with self._mutex:
            self._fences = [fence for fence in self._fences if not fence[2].query()]
            return [
                event
                for first, after, event in self._fences
                if any(first < offset + nbytes and offset < after for offset, nbytes in extent)
            ]

    def _hosts(self, buffers: Sequence[Buffer]) -> list[Any]:
        """Host bytes as tensors over the same memory."""
        return [self._from_numpy(buffer) for buffer in buffers]


def pieces(targets: Sequence[Any], sources: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Two cuts of the same number of bytes as pairs of slices of equal length."""
    targets, sources = list(targets), list(sources)
    assert sum(map(len, targets)) == sum(map(len, sources)), "both ends hold the same bytes"
    while targets and sources:
        to, at = targets[0], sources[0]
        length = min(len(to), len(at))
        if length:
            yield to[:length], at[:length]
        targets[:1] = [to[length:]] if len(to) > length else []
        sources[:1] = [at[length:]] if len(at) > length else []
