"""TieredEmbedding is `nn.Embedding`, bit by bit, with a tenth of its rows resident."""

from __future__ import annotations

import gc
import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tiermem.errors import DoesNotFit, InputError
from tiermem.hits import count
from tiermem.offload.embedding import TieredEmbedding
from tiermem.offload.memory import TieredMemory
from tiermem.traces.trace import Trace

Make = Callable[..., TieredMemory]
Optimizer = Callable[[Iterator[Any]], torch.optim.Optimizer]
STEPS = 200


def skewed(rows: int, references: int) -> torch.Tensor:
    """Ids of which a few are most."""
    random = torch.rand(references, generator=torch.Generator().manual_seed(1))
    return (random**4 * rows).to(torch.int64)


def counted(references: Any, policy: str, capacity: int) -> int:
    """Hits by `tiermem hits`, of one long request."""
    _, first, ids = np.unique(references, return_index=True, return_inverse=True)
    dense = np.argsort(np.argsort(first, kind="stable"), kind="stable")[ids].astype(np.int64)
    one, n = np.array([0], dtype=np.int64), np.array([len(dense)], dtype=np.int64)
    offsets = np.array([0, len(dense)], dtype=np.int64)
    trace = Trace("ids", 1, one, n, one.copy(), dense, offsets, synthetic=False)
    return count(trace, [policy], [capacity], "forward")[0].block_hits


def train(
    module: Any, ids: torch.Tensor, batch: int, optimizer: Optimizer
) -> Iterator[torch.Tensor]:
    """The losses of a made-up task: two look-ups a step, one of them weighted by a head."""
    torch.manual_seed(4)
    width = module.embedding_dim
    head = nn.Linear(width, 1)
    optimizers = [optimizer(module.parameters()), torch.optim.SGD(head.parameters(), lr=0.05)]
    for some in ids.split(batch):
        for each in optimizers:
            each.zero_grad()
        loss = (head(module(some)) - 1).pow(2).mean() + module(some[:3].view(1, 3)).sin().sum()
        loss.backward()
        for each in optimizers:
            each.step()
        yield loss.detach()


def sgd(parameters: Iterator[Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def pair(memory: TieredMemory, table: torch.Tensor, **options: Any) -> tuple[Any, Any]:
    """A plain module and a tiered one with the same rows."""
    padding = options.pop("padding_idx", None)
    sparse = options.pop("sparse", False)
    plain = nn.Embedding(*table.shape, padding_idx=padding, dtype=table.dtype, sparse=sparse)
    with torch.no_grad():
        plain.weight.copy_(table)
    return plain, TieredEmbedding.from_module(plain, memory, **options)


def trains_as_plain(memory: TieredMemory, ids: torch.Tensor, rows: int, page_rows: int) -> None:
    """200 steps over `ids`: losses and all rows equal those of the plain module, and the hits
    those that `tiermem hits` counts for what was looked up."""
    table = torch.randn(rows, 8, generator=torch.Generator().manual_seed(9))
    plain, tiered = pair(memory, table, page_rows=page_rows)
    resident = tiered.pages.resident_pages
    assert len(tiered.pages) // 10 - 1 <= resident <= len(tiered.pages) // 10 + 1
    batch = len(ids) // STEPS
    start = time.perf_counter()
    losses = list(train(tiered, ids, batch, sgd))
    seconds = time.perf_counter() - start
    expected = list(train(plain, ids, batch, sgd))
    assert len(losses) == STEPS
    assert torch.stack(losses).equal(torch.stack(expected))
    assert tiered.dense().equal(plain.weight)
    looked_up = torch.cat([torch.cat([some, some[:3]]) for some in ids.split(batch)])
    hits = counted(looked_up.numpy() // page_rows, "lru", resident)
    assert (tiered.pages.lookups, tiered.pages.hits) == (len(looked_up), hits)
    print(f"{seconds:.1f} s, {hits} of {len(looked_up)} look-ups hit")


def test_the_rows_of_the_dlrm_trace_train_bit_by_bit(make: Make, shared: Path) -> None:
    """On the recorded ids of a table of 500,000 rows, a tenth of which fit."""
    file = shared / "traces" / "dlrm-embedding" / "reuse_medium.table_500K.txt.gz"
    with gzip.open(file, "rt") as lines:
        ids = torch.tensor([int(next(lines)) for _ in range(STEPS * 16)])
    trains_as_plain(make("1560 KiB", "128 MiB"), ids, 500_000, 128)


def test_generated_rows_train_bit_by_bit(make: Make) -> None:
    """The same where no trace is at hand, with one row a page."""
    trains_as_plain(make("128 KiB", "64 MiB"), skewed(320, STEPS * 5), 320, 1)


@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        *((width, dtype) for dtype in (torch.float32, torch.float64) for width in (1, 3, 33)),
        *((32, dtype) for dtype in (torch.bfloat16, torch.float16)),
    ],
)
def test_training_is_bit_by_bit_for_any_row(make: Make, width: int, dtype: torch.dtype) -> None:
    """Widths that fill no vector register, and other dtypes. Half precision for whole registers:
    torch rounds what is left over from one otherwise."""
    memory = make("128 KiB", "64 MiB")
    table = torch.randn(900, width, generator=torch.Generator().manual_seed(9)).to(dtype)
    plain, tiered = pair(memory, table, page_rows=3)
    ids = skewed(900, 300)
    for module in (plain, tiered):
        steps = sgd(module.parameters())
        for some in ids.split(30):
            steps.zero_grad()
            module(some).float().tanh().sum().backward()
            steps.step()
    assert tiered.dense().equal(plain.weight)


def test_hits_under_another_policy(make: Make) -> None:
    """Reference by reference under LFU, one row a page, without training."""
    memory = make("128 KiB", "64 MiB", policy="lfu")
    _, tiered = pair(memory, torch.randn(320, 8), page_rows=1)
    ids = skewed(320, 800)
    with torch.no_grad():
        for some in ids.split(100):
            tiered(some)
    assert tiered.pages.hits == counted(ids.numpy(), "lfu", 32)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch's, about its own Adagrad
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("name", "optimizer", "sparse"),
    [
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), False),
        ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1), True),
        ("sparse adam", lambda p: torch.optim.SparseAdam(list(p), lr=0.1), True),
    ],
)
def test_optimizers_with_state(
    make: Make, name: str, optimizer: Optimizer, sparse: bool, grouped: bool
) -> None:
    """As for `nn.Embedding` (with `sparse=True` where they ask for it); the state of Adagrad and
    SparseAdam is paged too."""
    memory = make("128 KiB", "64 MiB")
    table = torch.randn(400, 16, generator=torch.Generator().manual_seed(9))
    plain, tiered = pair(memory, table, page_rows=4, sparse=sparse)
    tiered.grouped = grouped
    held = memory.status()["held"]
    ids = skewed(400, 400)
    losses = list(train(tiered, ids, 40, optimizer))
    expected = list(train(plain, ids, 40, optimizer))
    assert torch.stack(losses).allclose(torch.stack(expected), rtol=1e-5, atol=1e-6)
    assert tiered.dense().allclose(plain.weight, rtol=1e-5, atol=1e-6)
    gc.collect()
    assert memory.status()["held"] == held, "states went with their optimizer"


def test_optimizers_that_need_every_row_are_refused(make: Make) -> None:
    """Before a step is made, with what works instead."""
    _, tiered = pair(make("128 KiB", "64 MiB"), torch.randn(40, 16))
    before = tiered.dense()
    for optimizer in (
        torch.optim.SGD(tiered.parameters(), lr=0.1, weight_decay=0.1),
        torch.optim.Adam(tiered.parameters()),
    ):
        optimizer.zero_grad()
        tiered(torch.arange(5)).sum().backward()
        with pytest.raises((InputError, RuntimeError), match="SparseAdam"):
            optimizer.step()
    assert tiered.dense().equal(before)


def test_padding_and_shapes(make: Make) -> None:
    """The padding row gets no gradient; ids may have any shape; frozen rows have none."""
    plain, tiered = pair(make("128 KiB", "64 MiB"), torch.randn(40, 16), padding_idx=-1)
    ids = torch.tensor([[1, 39, 1], [39, 0, 2]])
    weights = torch.randn(2, 3, 16)
    for module in (plain, tiered):
        (module(ids) * weights).sum().backward()
    assert tiered.padding_idx == 39
    assert tiered.weight.grad.to_dense().equal(plain.weight.grad)
    assert tiered(torch.tensor(3)).equal(plain(torch.tensor(3)))
    assert tiered(torch.empty(2, 0, dtype=torch.int32)).shape == (2, 0, 16)
    frozen = TieredEmbedding.from_pretrained(plain.weight, make("128 KiB"))
    assert not frozen(ids).requires_grad


def test_a_new_table_is_normal(make: Make) -> None:
    """As that of `nn.Embedding`, without ever being whole in memory."""
    memory = make("128 KiB", "64 MiB")
    torch.manual_seed(0)
    made = TieredEmbedding(5000, 16, memory, padding_idx=3, dtype=torch.float16)
    table = made.dense()
    assert (table.dtype, made.weight.dtype) == (torch.float16, torch.float16)
    assert table[3].eq(0).all()
    assert abs(float(table.float().std()) - 1) < 0.02
    assert repr(made) == ("TieredEmbedding(5000, 16, 40 pages of 128 rows, 32 in the fastest tier)")


def test_a_state_dict_goes_both_ways(make: Make) -> None:
    """To a plain module and back, and what does not fit is named as torch names it."""
    plain, tiered = pair(make("128 KiB", "64 MiB"), torch.randn(3000, 16))
    model = nn.ModuleDict({"table": tiered})
    state = model.state_dict()
    assert state["table.weight"].equal(plain.weight)
    other = torch.randn(3000, 16)
    model.load_state_dict({"table.weight": other})
    assert tiered.dense().equal(other)
    with pytest.raises(RuntimeError, match="shape"):
        model.load_state_dict({"table.weight": other[:7]})
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({})


def test_mistakes_are_named(make: Make) -> None:
    """Ids that are no integers or no rows, options that are not offered."""
    memory = make("128 KiB", "64 MiB")
    _, tiered = pair(memory, torch.randn(40, 16))
    with pytest.raises(InputError, match="float32"):
        tiered(torch.tensor([1.0]))
    with pytest.raises(InputError, match="row 40"):
        tiered(torch.tensor([40]))
    with pytest.raises(InputError, match="max_norm"):
        TieredEmbedding.from_module(nn.Embedding(3, 4, max_norm=1.0), memory)
    with pytest.raises(InputError, match="two dimensions"):
        TieredEmbedding.from_pretrained(torch.zeros(3), memory)
    with pytest.raises(InputError, match="padding_idx"):
        TieredEmbedding(3, 4, memory, padding_idx=3)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("num_embeddings", {"num_embeddings": 3.0}),
        ("num_embeddings", {"num_embeddings": None}),
        ("num_embeddings", {"num_embeddings": -1}),
        ("embedding_dim", {"embedding_dim": "4"}),
        ("memory", {"memory": 3}),
        ("page_rows", {"page_rows": 1.5}),
        ("page_rows", {"page_rows": 0}),
        ("padding_idx", {"padding_idx": "x"}),
        ("dtype", {"dtype": torch.int64}),
        ("dtype", {"dtype": torch.float8_e4m3fn}),
        ("dtype", {"dtype": "float32"}),
    ],
)
def test_arguments_are_looked_at(make: Make, key: str, changes: dict[str, Any]) -> None:
    """Each is named, and nothing was put."""
    memory = make("128 KiB")
    given = {"num_embeddings": 3, "embedding_dim": 4, "memory": memory, **changes}
    with pytest.raises(InputError, match=f"^{key}: "):
        TieredEmbedding(**given)
    assert memory.status()["held"]["blocks"] == 0


def test_a_table_too_large_is_counted_before_it_is_made(make: Make) -> None:
    """Not even the list of its pages is."""
    for rows, width in ((10**15, 4), (4, 10**15), (10**25, 4)):
        with pytest.raises(DoesNotFit):
            TieredEmbedding(rows, width, make("128 KiB"))


def test_ids_that_are_no_tensor_of_rows_are_refused(make: Make) -> None:
    """Lists, nothing, and tensors without values in order."""
    tiered = TieredEmbedding(3, 4, make("128 KiB"))
    sparse = torch.tensor([1, 0]).to_sparse()
    for ids in ([1, 2], None, 3, sparse, torch.empty(3, dtype=torch.int64, device="meta")):
        with pytest.raises(InputError, match=r"^ids: "):
            tiered(ids)
    wrong: Any
    for wrong in ([[1.0]], None, torch.ones(2, 2, device="meta")):
        with pytest.raises(InputError):
            TieredEmbedding.from_pretrained(wrong, make("128 KiB"))
