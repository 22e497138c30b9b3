"""A handle knows what its tensor is, and its end frees it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from tiermem.errors import InputError
from tiermem.offload.layout import Layout
from tiermem.offload.ledger import Ledger
from tiermem.offload.tensor import TieredTensor


class Desk:
    """A memory that writes down what it is asked for."""

    def __init__(self) -> None:
        self.ledger = Ledger({"dram": 4096})
        self.asked: list[Any] = []

    def get(self, handle: TieredTensor, device: Any = None) -> Any:
        self.asked.append(("get", handle.block, device))

    def lease(self, handle: TieredTensor) -> Any:
        self.asked.append(("lease", handle.block))

    def free(self, handle: TieredTensor) -> None:
        self.asked.append(("free", handle.block))
        handle.freed = True


def test_a_handle_asks_its_memory() -> None:
    """It has a shape and a dtype, and no bytes."""
    desk = Desk()
    handle = TieredTensor(desk, 5, Layout(torch.float16, (3, 4)))
    assert (handle.shape, handle.dtype, handle.nbytes) == ((3, 4), torch.float16, 24)
    assert repr(handle) == "TieredTensor((3, 4), torch.float16)"
    handle.load("meta")
    handle.lease()
    handle.free()
    assert desk.asked == [("get", 5, "meta"), ("lease", 5), ("free", 5)]
    assert repr(handle) == "TieredTensor((3, 4), torch.float16, freed)"


def test_the_last_reference_frees_what_has_no_name() -> None:
    """A named one stays, and one that was freed is not freed again."""
    desk = Desk()
    layout = Layout(torch.int8, (1,))
    for block in (1, 2, 3):
        handle = TieredTensor(desk, block, layout)
        if block == 2:
            handle.name = "w"
            assert repr(handle) == "TieredTensor('w', (1,), torch.int8)"
        if block == 3:
            handle.free()
        del handle
    assert desk.ledger.orphans() == [1]


def test_a_handle_has_no_copies() -> None:
    """The end of one would delete the bytes of the other."""
    desk = Desk()
    handle = TieredTensor(desk, 5, Layout(torch.int8, (1,)))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InputError, match="neither copied nor pickled"):
            copied(handle)
    assert desk.ledger.orphans() == []
    assert handle.belongs_to(desk)
    assert not handle.belongs_to(Desk())
