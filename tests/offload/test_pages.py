"""A table in pages: every row comes back, and what hits is what `tiermem hits` counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tiermem.errors import DoesNotFit, InputError
from tiermem.hits import count
from tiermem.offload.memory import TieredMemory
from tiermem.offload.pages import Pages
from tiermem.offload.tensor import TensorLost
from tiermem.traces.trace import Trace

Make = Callable[..., TieredMemory]


def counted(references: Any, policy: str, capacity: int) -> int:
    """Hits by `tiermem hits`, of one long request."""
    _, first, ids = np.unique(references, return_index=True, return_inverse=True)
    dense = np.argsort(np.argsort(first, kind="stable"), kind="stable")[ids].astype(np.int64)
    one, n = np.array([0], dtype=np.int64), np.array([len(dense)], dtype=np.int64)
    offsets = np.array([0, len(dense)], dtype=np.int64)
    trace = Trace("ids", 1, one, n, one.copy(), dense, offsets, synthetic=False)
    return count(trace, [policy], [capacity], "forward")[0].block_hits


def skewed(rows: int, references: int, seed: int = 5) -> torch.Tensor:
    """Ids of which a few are most."""
    random = torch.rand(references, generator=torch.Generator().manual_seed(seed))
    return (random**4 * rows).to(torch.int64)


def table(memory: TieredMemory, rows: int, width: int = 16, page_rows: int | None = 1) -> Pages:
    """A table in which row i is i, i + 1/8, ..."""
    pages = Pages(memory, rows, width, torch.float32, page_rows)
    pages.fill(lambda start, stop: content(torch.arange(start, stop), width))
    return pages


def content(ids: torch.Tensor, width: int = 16) -> torch.Tensor:
    return ids[:, None] + torch.arange(width) / 8


@pytest.mark.parametrize("page_rows", [1, 7, 64, None, 5000])
def test_rows_come_back(make: Make, page_rows: int | None) -> None:
    """Whatever the page, the last one included, in order and grouped, and on any device."""
    memory = make("128 KiB", "64 MiB") if page_rows != 5000 else make("1 MiB", "64 MiB")
    pages = table(memory, 300 if page_rows == 1 else 1000, page_rows=page_rows)
    ids = skewed(pages.rows, 500)
    assert pages.take(ids).equal(content(ids))
    assert pages.take(ids, grouped=True).equal(content(ids))
    assert pages.take(ids.to(torch.int32)).dtype is torch.float32
    assert pages.take(torch.empty(0, dtype=torch.int64)).shape == (0, 16)
    rows = torch.cat([part for _, part in pages.whole()])
    assert rows.equal(content(torch.arange(pages.rows)))


@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu"])
@pytest.mark.parametrize("page_rows", [1, 8])
def test_hits_are_those_of_tiermem_hits(make: Make, policy: str, page_rows: int) -> None:
    """The same ids, in pages, at the same capacity, under the policy of the same name: reference
    by reference, also where one is repeated at once."""
    memory = make("128 KiB", "64 MiB", policy=policy)
    pages = table(memory, 300 * page_rows, page_rows=page_rows)
    ids = skewed(pages.rows, 800)
    ids[300:310] = ids[300]
    for part in ids.split(250):
        pages.take(part)
    assert pages.resident_pages == 32
    assert pages.lookups == 800
    assert pages.hits == counted(ids.numpy() // page_rows, policy, 32)


def test_changed_rows_come_back(make: Make) -> None:
    """INV-4: what was changed in memory is not hidden by an older copy on disk."""
    memory = make("128 KiB", "64 MiB")
    pages = table(memory, 300)
    expected = content(torch.arange(300))
    for step in range(8):
        ids = torch.unique(skewed(300, 40, step))
        pages.edit(ids, lambda rows, which, step=step: rows.add_(step))
        expected[ids] += step
        assert pages.take(ids).equal(expected[ids])
    seen = torch.zeros(300, 16)
    pages.visit(torch.arange(300), lambda rows, which: seen.index_copy_(0, which, rows))
    assert seen.equal(expected)


def test_changes_leave_the_order_of_use(make: Make) -> None:
    """Under LRU the rows of a batch are changed in the order in which they were looked up, so
    that a training hits as the look-ups alone do."""
    memory = make("128 KiB", "64 MiB")
    pages = table(memory, 300)
    ids = skewed(300, 600)
    for part in ids.split(20):
        pages.take(part)
        pages.edit(torch.unique(part), lambda rows, which: rows.mul_(1.5))
    assert pages.hits == counted(ids.numpy(), "lru", 32)


def test_a_table_in_host_memory_alone(make: Make) -> None:
    """All of it is resident, and every look-up hits."""
    pages = table(make("1 MiB"), 100, page_rows=8)
    ids = skewed(100, 50)
    assert pages.take(ids).equal(content(ids))
    assert pages.hits == pages.lookups == 50


def test_a_lost_page_is_an_error_and_never_zeros(make: Make) -> None:
    """It cannot be computed again; the rows are named, and other pages are still read."""
    memory = make("128 KiB", "64 MiB")
    pages = table(memory, 300, page_rows=8)
    pages.take(torch.tensor([0]))
    memory.clear("nvme")
    assert pages.take(torch.tensor([7])).equal(content(torch.tensor([7])))
    for use in (
        lambda: pages.take(torch.tensor([0, 100])),
        lambda: pages.take(torch.tensor([0, 100]), grouped=True),
        lambda: pages.edit(torch.tensor([100]), lambda rows, which: rows.zero_()),
    ):
        with pytest.raises(TensorLost, match=r"rows 96 to 103 are lost.*checkpoint"):
            use()


def test_mistakes_are_named(make: Make) -> None:
    """Rows that are not there, tables that do not fit or are gone."""
    memory = make("128 KiB", "16 MiB")
    pages = table(memory, 10, page_rows=4)
    for wrong in (10, -1):
        with pytest.raises(InputError, match=f"row {wrong} is not in a table of 10 rows"):
            pages.take(torch.tensor([1, wrong]))
    with pytest.raises(InputError, match="num_embeddings: 0 is not"):
        Pages(memory, 0, 4, torch.float32)
    with pytest.raises(InputError, match="page_rows"):
        Pages(memory, 10, 4, torch.float32, 0)
    with pytest.raises(DoesNotFit):
        Pages(memory, 10_000_000, 64, torch.float32)
    held = memory.ledger.nbytes
    pages.free()
    assert memory.ledger.nbytes < held
    with pytest.raises(InputError, match="freed"):
        pages.take(torch.tensor([1]))
    del pages
    table(memory, 10)  # and nobody keeps it
    assert memory.status()["held"]["blocks"] == 0
