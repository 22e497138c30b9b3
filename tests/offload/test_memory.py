"""What is put comes back bit by bit, from whichever tier, or the caller hears why not."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.errors import DoesNotFit, InputError, RuntimeFault, UnknownName
from tiermem.offload.layout import as_bytes
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TensorLost
from tiermem.testing.twin import Tape, same_actions

Make = Callable[..., TieredMemory]
Some = Callable[..., torch.Tensor]
QUANTISED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)} - QUANTISED, key=str
)
SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 8_388_609)  # known_faults 103, in bytes


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same dtype, shape and bits; NaNs are equal to themselves."""
    return (one.dtype, one.shape) == (other.dtype, other.shape) and as_bytes(one).equal(
        as_bytes(other)
    )


def test_every_dtype_comes_back_from_disk(make: Make, some: Some) -> None:
    """known_faults 111: bfloat16, float8, bool, complex and the rest, exact."""
    memory = make("64 KiB", "64 MiB")
    tensors = [some(dtype, 3000, seed) for seed, dtype in enumerate(DTYPES)]
    handles = [memory.put(tensor) for tensor in tensors]
    for tensor, handle in zip(tensors, handles, strict=True):
        assert same(handle.load(), tensor)
        with handle.lease() as lent:
            assert same(lent, tensor)
        assert (handle.shape, handle.dtype) == (tensor.shape, tensor.dtype)


def test_every_size_comes_back_from_disk(make: Make, some: Some) -> None:
    """known_faults 103: the tail of a tensor that fills no whole granule is there too."""
    memory = make("12 MiB", "96 MiB")
    tensors = [some(torch.uint8, nbytes, nbytes) for nbytes in SIZES]
    handles = [memory.put(tensor) for tensor in tensors]
    assert memory.sink()
    for tensor, handle in zip(tensors, handles, strict=True):
        assert same(handle.load(), tensor)


def test_views_are_taken_by_their_values(make: Make) -> None:
    """known_faults 117: a slice, a transpose, an expansion; and only their own bytes."""
    memory = make()
    whole = torch.arange(4096.0).view(64, 64)
    for view in (whole[3:], whole.t(), whole[:, 1::2], whole[:1].expand(9, 64), whole[5, 6]):
        handle = memory.put(view)
        assert same(handle.load(), view.contiguous())
        assert handle.nbytes == 4 * view.numel()
    assert same(memory.put(torch.tensor([1 + 2j]).conj()).load(), torch.tensor([1 - 2j]))


def test_the_source_may_change_at_once(make: Make) -> None:
    """known_faults 113, 115, 116: `put` has its own bytes before it returns."""
    memory = make("256 KiB", "8 MiB")
    tensor, handles = torch.zeros(5000), []
    for number in range(40):
        tensor.fill_(number)
        handles.append(memory.put(tensor))
        tensor.fill_(-1)
    del tensor
    for number, handle in enumerate(handles):
        assert handle.load().equal(torch.full((5000,), float(number)))


def test_a_lease_is_the_memory_of_the_tier(make: Make) -> None:
    """Two leases of one tensor are the same memory; a loaded copy is its own."""
    memory = make()
    handle = memory.put(torch.arange(100))
    with handle.lease() as one, handle.lease() as other:
        assert one.data_ptr() == other.data_ptr()
        assert handle.load().data_ptr() != one.data_ptr()


def test_a_scattered_tensor_is_gathered(make: Make) -> None:
    """Room in pieces holds a tensor that is none the worse for it."""
    memory = make("64 KiB")
    small = [memory.put(torch.full((1024,), float(i))) for i in range(16)]
    for handle in small[::2]:
        handle.free()
    tensor = torch.arange(8 * 1024.0)
    handle = memory.put(tensor)
    with handle.lease() as lent:
        assert lent.equal(tensor)
    assert handle.load().equal(tensor)
    assert all(kept.load().eq(2 * i + 1).all() for i, kept in enumerate(small[1::2]))


def test_what_can_never_fit_is_refused_with_both_numbers(make: Make) -> None:
    """Larger than the fastest tier, or more than the largest has left; nothing is lost for it."""
    memory = make("64 KiB", "16 MiB")
    with pytest.raises(DoesNotFit, match=r"80,000 bytes.*'dram'.*65,536 bytes"):
        memory.put(torch.zeros(20_000))
    held = []
    for number in range(memory.ledger.largest[1] // 65_536):
        held.append(memory.put(torch.full((16384,), float(number))))
    with pytest.raises(DoesNotFit, match=r"65,536 bytes.*more do not fit.*'nvme'"):
        memory.put(torch.zeros(16384))
    assert all(handle.load().eq(i).all() for i, handle in enumerate(held))
    held.pop().free()
    memory.put(torch.zeros(16384))


def test_host_memory_alone_keeps_everything(make: Make) -> None:
    """known_faults 121: without a disk or a GPU; full is refused, and nothing is dropped."""
    memory = make("64 KiB")
    held = [memory.put(torch.full((1024,), float(i))) for i in range(16)]
    with pytest.raises(DoesNotFit):
        memory.put(torch.zeros(1))
    assert not memory.sink()
    assert all(handle.load().eq(i).all() for i, handle in enumerate(held))


def test_a_tier_larger_than_the_machine_is_refused() -> None:
    """known_faults 123."""
    with pytest.raises(DoesNotFit, match="dram"):
        TieredMemory("900 TiB")


def test_freed_and_forgotten_tensors_give_their_room_back(make: Make) -> None:
    """By `free`, twice as well as once, and with the last reference to the handle."""
    memory = make("64 KiB")
    handle = memory.put(torch.zeros(8192))
    handle.free()
    handle.free()
    with pytest.raises(InputError, match="freed"):
        handle.load()
    for _ in range(20):
        handle = memory.put(torch.zeros(8192))  # the one before is garbage now
    del handle
    gc.collect()
    assert memory.status()["held"] == {"blocks": 0, "bytes": 0}
    assert memory.put(torch.zeros(16384)).load().shape == (16384,)


def test_nothing_is_left_after_clear(make: Make) -> None:
    """known_faults 124: not in any tier; and a tier by itself loses what only it had."""
    memory = make("64 KiB", "16 MiB")
    handles = [memory.put(torch.zeros(8192)) for _ in range(4)]
    memory.clear("dram")
    assert handles[0].load().shape == (8192,)
    with pytest.raises(TensorLost, match="put again"):
        handles[3].load()
    memory.clear()
    for handle in handles:
        with pytest.raises(TensorLost):
            handle.load()
    assert memory.ledger.nbytes == 0
    with pytest.raises(UnknownName, match="dram"):
        memory.clear("drma")


def test_a_flipped_byte_on_disk_is_an_error_and_never_data(make: Make, tmp_path: Path) -> None:
    """known_faults 88 and 90: nothing of a damaged tensor reaches the caller."""
    memory = make("64 KiB", "16 MiB")
    handle = memory.put(torch.full((8192,), 7.0))
    other = memory.put(torch.full((8192,), 8.0))
    assert memory.sink()
    pattern, flipped = torch.full((1024,), 7.0).numpy().tobytes(), 0
    for file in (tmp_path / "disk").rglob("*"):
        if file.is_file() and (at := file.read_bytes().find(pattern)) >= 0:
            with file.open("r+b") as opened:
                opened.seek(at + 2000)
                opened.write(b"\x55")
            flipped += 1
    assert flipped == 1
    with pytest.raises(TensorLost, match="float32"):
        handle.load()
    assert other.load().eq(8).all()


def test_threads_share_a_memory(make: Make, some: Some) -> None:
    """Eight of them put, read and free; each finds its own bits."""
    memory = make("1 MiB", "64 MiB")
    wrong: list[str] = []

    def work(number: int) -> None:
        held = []
        for step in range(30):
            tensor = some(torch.int16, 1 + (number * 7919 + step * 104729) % 30_000, number)
            held.append((tensor, memory.put(tensor)))
            tensor, handle = held[(step * 31) % len(held)]
            if not same(handle.load(), tensor):
                wrong.append(f"thread {number}, step {step}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    gc.collect()
    assert memory.status()["held"]["blocks"] == 0


def test_recorded_events_give_the_same_actions(make: Make) -> None:
    """INV-10: a fresh mind under the policy that the memory says it runs."""
    tape = Tape()
    memory = make("64 KiB", "4 MiB", policy="lfu", taps=(tape,))
    handles = [memory.put(torch.full((3000,), float(i))) for i in range(30)]
    for step in range(100):
        assert handles[step * 7 % 30].load()[0] == step * 7 % 30
    memory.close()
    runtime = memory.runtime
    assert isinstance(memory.policy, str)
    policy = make_policy(memory.policy, runtime.capacities_bytes)
    fresh = Controller(runtime.topology, runtime.capacities_bytes, policy)
    assert same_actions(tape, fresh) > 100


def test_a_codec_is_used_where_it_can_be(make: Make) -> None:
    """Only when asked for, only for floating values, and the counters say so."""
    memory = make("1 MiB", "64 MiB", codec="int8")
    assert memory.codec is not None
    tensor = torch.linspace(-1, 1, 9999).view(99, 101).t()
    handle, exact = memory.put(tensor), memory.put(torch.arange(9999))
    infinite = memory.put(torch.tensor([1.0, float("inf")]))
    assert memory.sink()
    for back in (handle.load(), memory.get(handle)):
        assert ((back - tensor).abs() <= memory.codec.bound(tensor)).all()
        assert not back.equal(tensor)
    with handle.lease() as lent:
        assert lent.shape == (101, 99)
    assert handle.nbytes < tensor.nbytes * 0.27
    assert exact.load().equal(torch.arange(9999))
    assert infinite.load().isinf().tolist() == [False, True]
    stored = memory.status()["stored"]
    assert (stored["encoded"], stored["exact"]) == (1, 2)


def test_tensors_in_their_order_of_use_hit_as_counted(make: Make) -> None:
    """The fastest tier is full when it can be: as many tensors hit as fit it."""
    memory = make("64 KiB", "16 MiB")
    handles = [memory.put(torch.full((1024,), float(i))) for i in range(32)]
    grants = [memory.runtime.acquire((handle.block,)) for handle in handles[16:]]
    assert [grant.hits[0][0] for grant in grants] == ["dram"] * 16
    for grant in grants:
        grant.release()


def test_a_fork_is_refused_and_the_parent_goes_on(make: Make) -> None:
    """known_faults 126: the child hears what to do instead, and closing there changes nothing."""
    memory = make("64 KiB", "16 MiB")
    handle = memory.put(torch.arange(5))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        said = "nothing was refused"
        try:
            handle.load()
        except RuntimeFault as error:
            said = str(error)
        memory.close()
        os.write(writer, said.encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert "spawn" in os.read(reader, 1000).decode()
    os.close(reader)
    os.close(writer)
    assert handle.load().tolist() == [0, 1, 2, 3, 4]
