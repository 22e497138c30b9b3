"""Copies come after the kernels that wrote and before the memory is used again.

CUDA is stood in for by streams that are lists: a stream does its work only when somebody waits for
it, and it does first what it was told to wait for. An order that was forgotten gives wrong bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tiermem.runtime import lanes
from tiermem.runtime.lanes import Lanes, pieces
from tiermem.runtime.stores import Span

torch = pytest.importorskip("torch")


class LazyEvent:
    """Done when its stream has got as far as it had been given when the event was recorded."""

    def __init__(self, blocking: bool = False) -> None:
        self.stream: LazyStream | None = None
        self.place = 0

    def record(self, stream: LazyStream) -> None:
        self.stream, self.place = stream, len(stream.work)

    def query(self) -> bool:
        return self.stream is None or self.stream.at >= self.place

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run(self.place)


class LazyStream:
    """Work in order, done as late as possible."""

    def __init__(self, device: Any = None) -> None:
        self.work: list[Callable[[], object]] = []
        self.at = 0

    def run(self, place: int) -> None:
        while self.at < place:
            task = self.work[self.at]
            self.at += 1
            task()

    def wait_event(self, event: LazyEvent) -> None:
        self.work.append(event.synchronize)

    def wait_stream(self, other: LazyStream) -> None:
        event = LazyEvent()
        event.record(other)
        self.wait_event(event)


class LazyCuda:
    """What `Lanes` needs of torch.cuda."""

    Event = LazyEvent
    Stream = LazyStream

    def __init__(self) -> None:
        self.now = LazyStream()

    def current_stream(self, device: Any = None) -> LazyStream:
        return self.now

    @contextmanager
    def stream(self, stream: LazyStream) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before


class LazyTensor:
    """A numpy array whose copies are work for the current stream."""

    def __init__(self, cuda: LazyCuda, array: Any) -> None:
        self.cuda, self.array = cuda, array
        self.read_by: list[LazyStream] = []

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: slice) -> LazyTensor:
        return LazyTensor(self.cuda, self.array[key])

    def copy_(self, other: LazyTensor, non_blocking: bool) -> None:
        assert non_blocking
        self.cuda.now.work.append(lambda: np.copyto(self.array, other.array))

    def kernel(self, value: int) -> None:
        """Set every byte, later."""
        self.cuda.now.work.append(lambda: self.array.fill(value))

    def record_stream(self, stream: LazyStream) -> None:
        self.read_by.append(stream)


@pytest.fixture
def cuda() -> LazyCuda:
    return LazyCuda()


@pytest.fixture
def under_test(cuda: LazyCuda, monkeypatch: pytest.MonkeyPatch) -> Lanes:
    made = Lanes.__new__(Lanes)
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(torch, "from_numpy", lambda array: LazyTensor(cuda, array))
    made.__init__("cuda:0")  # type: ignore[misc]
    return made


HERE = (Span(0, 4096),)
THERE = (Span(8192, 4096),)


def test_a_copy_comes_after_the_kernel_that_wrote(cuda: LazyCuda, under_test: Lanes) -> None:
    """Kernel, fence, copy down: the copy has the kernel's bytes, which are there after `wait`."""
    view, host = LazyTensor(cuda, np.zeros(100, np.uint8)), np.zeros(100, np.uint8)
    view.kernel(7)
    under_test.fence(HERE)
    copy = under_test.down(HERE, [view], [host])
    assert not copy.done()
    assert host.sum() == 0
    copy.wait()
    assert copy.done()
    assert (host == 7).all()


def test_memory_is_used_again_after_its_copy(cuda: LazyCuda, under_test: Lanes) -> None:
    """The next owner's kernel, and the next copy up, come after the copy down that reads it."""
    view = LazyTensor(cuda, np.full(100, 5, np.uint8))
    first, second = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    down = under_test.down(HERE, [view], [first])
    under_test.follow(HERE)
    view.kernel(9)
    cuda.now.run(len(cuda.now.work))  # the kernel's stream races ahead
    down.wait()
    assert (first == 5).all()
    under_test.fence(HERE)
    again = under_test.down(HERE, [view], [second])
    up = under_test.up(HERE, [view], [np.full(100, 1, np.uint8)])
    up.wait()
    again.wait()
    assert (second == 9).all()
    assert (view.array == 1).all()


def test_kernels_come_after_the_copy_up(cuda: LazyCuda, under_test: Lanes) -> None:
    """Whoever asks for views after a copy up reads its bytes, without waiting on the host."""
    view, seen = LazyTensor(cuda, np.zeros(64, np.uint8)), np.zeros(64, np.uint8)
    under_test.up(HERE, [view], [np.full(64, 3, np.uint8)])
    under_test.follow(HERE)
    LazyTensor(cuda, seen).copy_(view, non_blocking=True)
    cuda.now.run(len(cuda.now.work))
    assert (seen == 3).all()


def test_other_bytes_wait_for_nothing(cuda: LazyCuda, under_test: Lanes) -> None:
    """A fence holds up only copies of the bytes it covers, and is forgotten when it is over."""
    view = LazyTensor(cuda, np.zeros(64, np.uint8))
    under_test.fence(HERE)  # nothing was given to the stream: over at once
    assert under_test._pending(HERE) == []
    view.kernel(1)
    under_test.fence(HERE)
    under_test.down(THERE, [view], [np.zeros(64, np.uint8)]).wait()
    assert cuda.now.at == 0
    assert len(under_test._pending(HERE)) == 1
    under_test.settle(HERE)
    assert cuda.now.at == 1
    assert under_test._fences == [] or under_test._pending(HERE) == []


def test_a_tensor_of_the_caller_is_kept(cuda: LazyCuda, under_test: Lanes) -> None:
    """A tensor that is fetched is copied after its kernels, and the allocator is told who reads
    it, so that the caller may free it at once."""
    tensor, host = LazyTensor(cuda, np.zeros(96, np.uint8)), np.zeros(96, np.uint8)
    tensor.kernel(4)
    copy = under_test.fetch(tensor, [host[:32], host[32:]])
    assert tensor.read_by == [under_test._down]
    copy.wait()
    assert (host == 4).all()


def test_close_waits_for_all(cuda: LazyCuda, under_test: Lanes) -> None:
    """Nothing is under way after close."""
    host = np.zeros(64, np.uint8)
    under_test.down(HERE, [LazyTensor(cuda, np.full(64, 8, np.uint8))], [host])
    under_test.close()
    assert (host == 8).all()


@pytest.mark.parametrize("cut", [[10], [1, 9], [3, 3, 4], [0, 10, 0]])
@pytest.mark.parametrize("other", [[10], [5, 5], [9, 1]])
def test_pieces_pair_equal_lengths(cut: list[int], other: list[int]) -> None:
    """However both ends are cut, each byte goes to its place; unequal ends are refused."""

    def parts(whole: Any, lengths: list[int]) -> list[Any]:
        return np.split(whole, np.cumsum(lengths)[:-1])

    source, target = np.arange(10, dtype=np.uint8), np.zeros(10, np.uint8)
    for to, at in pieces(parts(target, cut), parts(source, other)):
        assert len(to) == len(at) > 0
        to[:] = at
    assert (target == source).all()
    with pytest.raises(AssertionError, match="the same bytes"):
        list(lanes.pieces([target], [source[1:]]))
