"""The device arena: refusals everywhere; on CUDA, bytes in the right order."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tiermem.errors import DoesNotFit, InputError, TierUnavailable
from tiermem.runtime.device import DeviceArena
from tiermem.runtime.host import HostArena
from tiermem.testing.memory_stores import MemoryStoreTests

torch = pytest.importorskip("torch")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
MIB = 2**20


class Device(MemoryStoreTests):
    """How the suite reads and writes tensors."""

    def make(self, capacity_bytes: int) -> DeviceArena:
        return DeviceArena(capacity_bytes)

    def fill(self, view: Any, data: bytes) -> None:
        view.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def content(self, view: Any) -> bytes:
        return bytes(view.cpu().numpy())


@pytest.mark.gpu
@needs_cuda
class TestDeviceArena(Device):
    """On a CUDA device it is a memory store."""


class Nothing:
    """A stream or an event where there is nothing to order."""

    def __init__(self, **_: object) -> None:
        pass

    def record(self, stream: object) -> None:
        pass

    def query(self) -> bool:
        return True


class TestWithoutCuda(Device):
    """Its books, slices and refusals are those of a memory store on any machine."""

    @pytest.fixture(autouse=True)
    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """CUDA's names, over a tensor of the host."""
        cuda, empty = torch.cuda, torch.empty
        monkeypatch.setattr(cuda, "is_available", lambda: True)
        monkeypatch.setattr(cuda, "device_count", lambda: 1)
        monkeypatch.setattr(cuda, "mem_get_info", lambda _: (512 * MIB, 1024 * MIB))
        monkeypatch.setattr(cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(cuda, "current_stream", lambda _: Nothing())
        monkeypatch.setattr(cuda, "Stream", Nothing)
        monkeypatch.setattr(cuda, "Event", Nothing)
        monkeypatch.setattr(torch, "empty", lambda n, dtype, device: empty(n, dtype=dtype))

    def test_more_than_the_device_has_left(self) -> None:
        """Refused with both numbers."""
        with pytest.raises(DoesNotFit, match=r"600 MiB .* cuda:0 has 512 MiB .* of 1 GiB"):
            DeviceArena(600 * MIB)

    def test_another_device_is_unavailable(self) -> None:
        """The message lists those there are."""
        with pytest.raises(TierUnavailable, match=r"no device 'cuda:3'; there are: cuda:0"):
            DeviceArena(MIB, "cuda:3")
        with pytest.raises(TierUnavailable, match="no device 'cpu'"):
            DeviceArena(MIB, "cpu")
        with pytest.raises(InputError, match="at least one byte"):
            DeviceArena(0)

    def test_fences_are_forgotten_when_over(self) -> None:
        """A fence costs nothing after its kernels."""
        store = self.make(MIB)
        extent = self.given(store, 4096)
        store.fence(extent)
        store.settle(extent)
        assert len(store.views(extent, 4096)) == 1
        store.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_without_cuda_the_tier_is_unavailable() -> None:
    """One line says what is missing and what to do."""
    with pytest.raises(TierUnavailable, match=r"tier 'hbm' is unavailable: torch .* no CUDA"):
        DeviceArena(MIB)


@pytest.mark.gpu
@needs_cuda
def test_offloaded_after_the_kernel_and_freed_at_once() -> None:
    """A kernel writes, the copy follows on the side stream, and the memory is written again at
    once: every copy has its own kernel's bytes, over hundreds of rounds."""
    nbytes = 8 * MIB
    device, host = DeviceArena(2 * nbytes), HostArena(4 * nbytes, pin=True)
    random = Random(1)
    landed = []
    for mark in range(400):
        extent = device.allocate(nbytes)
        assert extent is not None
        (view,) = device.views(extent, nbytes)
        for _ in range(random.randint(1, 4)):
            view.fill_(mark % 251)
        device.fence(extent)
        room = host.allocate(nbytes)
        assert room is not None
        landed.append((mark, room, device.copy_out(extent, nbytes, host.views(room, nbytes))))
        device.free(extent)
        if len(landed) == 4:
            wanted, room, copy = landed.pop(0)
            copy.wait()
            assert all((part == wanted % 251).all() for part in host.views(room, nbytes))
            host.free(room)
    for _, _, copy in landed:
        copy.wait()
    device.close()
    host.close()


@pytest.mark.gpu
@needs_cuda
def test_a_tensor_is_fetched_and_freed_at_once() -> None:
    """The caller's tensor may go as soon as the copy was asked for."""
    device, host = DeviceArena(MIB), HostArena(64 * MIB, pin=True)
    room = host.allocate(32 * MIB)
    assert room is not None
    for mark in range(100):
        tensor = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda:0").fill_(mark)
        copy = device.fetch(tensor, host.views(room, 32 * MIB))
        del tensor
        torch.empty(32 * MIB, dtype=torch.uint8, device="cuda:0").fill_(255)
        copy.wait()
        assert all(np.all(part == mark) for part in host.views(room, 32 * MIB))


@pytest.mark.gpu
@needs_cuda
def test_copies_in_are_seen_by_kernels() -> None:
    """What was copied in is what kernels read, without a wait on the host."""
    device, host = DeviceArena(64 * MIB), HostArena(64 * MIB, pin=True)
    room, extent = host.allocate(32 * MIB), device.allocate(32 * MIB)
    assert room is not None
    assert extent is not None
    for mark in range(50):
        for part in host.views(room, 32 * MIB):
            part[:] = mark
        copy = device.copy_in(extent, 32 * MIB, host.views(room, 32 * MIB))
        total = sum(int(view.sum(dtype=torch.int64)) for view in device.views(extent, 32 * MIB))
        assert total == mark * 32 * MIB
        copy.wait()


@pytest.mark.gpu
@needs_cuda
def test_pinned_memory_is_what_was_asked() -> None:
    """65 MiB of pinned host memory are 65 MiB, and they are pinned."""
    arena = HostArena(65 * MIB, pin=True)
    assert arena.warnings == []
    assert arena.pinned_bytes == 65 * MIB
    extent = arena.allocate(MIB)
    assert extent is not None
    assert torch.from_numpy(arena.views(extent, MIB)[0]).is_pinned()
    arena.close()
    assert arena.pinned_bytes == 0
