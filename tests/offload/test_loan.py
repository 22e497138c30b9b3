"""A grant becomes tensors, or an error that names the one that is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tiermem.offload.loan import Loan, loaded, require
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TensorLost

Make = Callable[..., TieredMemory]


def test_several_tensors_are_lent_as_one(make: Make) -> None:
    """In the order of the handles, one of them twice; all go with the release."""
    memory = make("64 KiB", codec="int8")
    one, other = memory.put(torch.arange(5)), memory.put(torch.ones(3))
    loan = memory.borrow((other, one, other))
    assert [tensor.tolist() for tensor in loan.tensors] == [[1.0] * 3, [0, 1, 2, 3, 4], [1.0] * 3]
    loan.release()
    assert loan.tensors == []
    assert memory.put(torch.zeros(16384, dtype=torch.uint8)).load().shape == (16384,)


def test_the_lost_one_is_named_and_nothing_is_held(make: Make) -> None:
    """Whichever way it is read."""
    memory = make("64 KiB")
    handles = [memory.put(torch.zeros(size)) for size in (3, 4)]
    memory.clear("dram")
    blocks = memory.blocks_of(handles)
    with memory.runtime.acquire(blocks) as grant:
        with pytest.raises(
            TensorLost, match=r"TieredTensor\(\(3,\), torch.float32\) is in no tier"
        ):
            require(handles, grant)
        with pytest.raises(TensorLost):
            loaded(handles[0], grant, "cpu")
    with pytest.raises(TensorLost):
        Loan(handles, memory.runtime.acquire(blocks))
    assert memory.status()["tiers"].leases == 4
    memory.runtime.acquire(blocks).release()  # nobody holds them
