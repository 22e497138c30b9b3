"""A paged parameter does by rows what optimizers do with sparse gradients, and nothing else."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tiermem.errors import InputError
from tiermem.offload.memory import TieredMemory
from tiermem.offload.paged import PagedWeight, filled
from tiermem.offload.pages import Pages

Make = Callable[..., TieredMemory]


@pytest.fixture
def weight(make: Make) -> PagedWeight:
    """Twelve rows of three, counting up, in pages of five."""
    memory = make("64 KiB", "16 MiB")
    pages = Pages(memory, 12, 3, torch.float32, 5)
    pages.fill(lambda start, stop: torch.arange(start * 3.0, stop * 3.0).view(-1, 3))
    return PagedWeight(pages, memory)


def rows(weight: PagedWeight) -> torch.Tensor:
    """All of it."""
    return torch.cat([part for _, part in weight.pages.whole()])


def sparse(ids: list[int]) -> torch.Tensor:
    """Ones in these rows, added up where a row is named twice."""
    return torch.sparse_coo_tensor(
        torch.tensor([ids]), torch.ones(len(ids), 3), (12, 3), check_invariants=True
    )


def test_adding_rows(weight: PagedWeight) -> None:
    """As a dense tensor does, `alpha` included."""
    expected = torch.arange(36.0).view(12, 3).add_(sparse([11, 2, 2]).to_dense(), alpha=-0.3)
    assert weight.add_(sparse([11, 2, 2]), alpha=-0.3) is weight
    assert rows(weight).equal(expected)


def test_reading_rows(weight: PagedWeight) -> None:
    """Those that a sparse tensor has."""
    found = weight.sparse_mask(sparse([11, 0]).coalesce())
    assert found._indices().tolist() == [[0, 11]]
    assert found._values().tolist() == [[0.0, 1.0, 2.0], [33.0, 34.0, 35.0]]


def test_states_are_tables_too(weight: PagedWeight) -> None:
    """In the same memory, so that they need not fit into RAM either."""
    state = torch.full_like(weight, 0.5)
    assert isinstance(state, PagedWeight)
    assert rows(state).eq(0.5).all()
    assert rows(torch.zeros_like(weight, memory_format=torch.preserve_format)).eq(0).all()
    assert rows(filled(weight, 2.0)).eq(2).all()
    with pytest.raises(InputError, match="float64"):
        torch.zeros_like(weight, dtype=torch.float64)


def test_it_is_a_parameter_without_storage(weight: PagedWeight) -> None:
    """With the shape of the whole table."""
    parameter = nn.Parameter(weight)
    assert isinstance(parameter, nn.Parameter)
    assert isinstance(parameter, PagedWeight)
    assert (parameter.shape, parameter.dtype, parameter.requires_grad) == (
        (12, 3),
        torch.float32,
        True,
    )
    assert parameter.detach().pages is weight.pages
    assert repr(parameter) == "PagedWeight(12 x 3, torch.float32)"


def test_what_needs_the_whole_table_is_refused_by_name(weight: PagedWeight) -> None:
    """And says what there is instead."""
    parameter = nn.Parameter(weight)
    for use in (
        lambda: parameter.sum(),
        lambda: nn.functional.linear(torch.zeros(1, 3), parameter),
        lambda: torch.zeros(12, 3).add(weight),
        lambda: weight.add_(torch.zeros(12, 3)),
        lambda: copy.deepcopy(parameter),
        lambda: pickle.dumps(parameter),
    ):
        with pytest.raises(InputError, match=r"table|by rows"):
            use()
