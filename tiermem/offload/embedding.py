"""TieredEmbedding: a table of rows that need not fit memory, with gradients.

Used as `nn.Embedding` and trained by torch's own optimizers. SGD is bit by bit what it is for
`nn.Embedding(sparse=False)`; Adagrad and SparseAdam keep their state in the same tiers, in pages of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from tiermem.errors import InputError
from tiermem.offload.layout import layout_of
from tiermem.offload.memory import TieredMemory
from tiermem.offload.paged import PagedWeight
from tiermem.offload.pages import Pages

Tensor: TypeAlias = Any


class TieredEmbedding(nn.Module):
    """`num_embeddings` rows of `embedding_dim` values in `memory`, `page_rows` of them in a page
    (as many as fill 4 KiB by itself). `grouped`, which may be set at any time, looks each page up
    once in a batch instead of row after row (see `Pages.take`).

    The rows start as those of `nn.Embedding`: normal, and zeros at `padding_idx`, which gets no
    gradient. Gradients are sparse. `pages.lookups` and `pages.hits` count rows.
    """

    grouped = False

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        memory: TieredMemory,
        *,
        page_rows: int | None = None,
        padding_idx: int | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        dtype = torch.get_default_dtype() if dtype is None else dtype

        def normal(start: int, stop: int) -> Tensor:
            rows = torch.randn(stop - start, embedding_dim, dtype=dtype)
            if self.padding_idx is not None and start <= self.padding_idx < stop:
                rows[self.padding_idx - start] = 0
            return rows

        self.pages = Pages(memory, num_embeddings, embedding_dim, dtype, page_rows)
        self.num_embeddings, self.embedding_dim = self.pages.rows, self.pages.width
        self.padding_idx = _row(padding_idx, self.num_embeddings)
        self._fill(normal, memory)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        memory: TieredMemory,
        *,
        freeze: bool = True,
        page_rows: int | None = None,
        padding_idx: int | None = None,
    ) -> TieredEmbedding:
        """The rows of a tensor of two dimensions, as `nn.Embedding.from_pretrained`."""
        layout_of(embeddings)  # what is no plain tensor is refused by name
        if embeddings.dim() != 2:
            raise InputError(f"a table has two dimensions, not {embeddings.dim()}")
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.num_embeddings, made.embedding_dim = embeddings.shape
        made.padding_idx = _row(padding_idx, made.num_embeddings)
        rows, width = embeddings.shape
        made.pages = Pages(memory, rows, width, embeddings.dtype, page_rows)
        made._fill(lambda start, stop: embeddings.detach()[start:stop], memory)
        made.weight.requires_grad_(not freeze)
        return made

    @classmethod
    def from_module(
        cls, module: nn.Embedding, memory: TieredMemory, *, page_rows: int | None = None
    ) -> TieredEmbedding:
        """The rows of an `nn.Embedding`, which may be let go of afterwards. What it does beyond
        looking up and a padding row is refused."""
        if not isinstance(module, nn.Embedding):
            raise InputError(f"a {type(module).__name__} is not an nn.Embedding", key="module")
        if module.max_norm is not None or module.scale_grad_by_freq:
            raise InputError("max_norm and scale_grad_by_freq are not offered by TieredEmbedding")
        return cls.from_pretrained(
            module.weight,
            memory,
            freeze=not module.weight.requires_grad,
            page_rows=page_rows,
            padding_idx=module.padding_idx,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of `ids`, of any shape, on their device: shape (*ids.shape, embedding_dim)."""
        if not isinstance(ids, torch.Tensor):
            raise InputError(f"row ids are a tensor, not a {type(ids).__name__}", key="ids")
        if ids.device.type == "meta" or ids.layout is not torch.strided or ids.is_nested:
            raise InputError(
                f"row ids of the layout {ids.layout} on {ids.device} have no values in order",
                key="ids",
            )
        if ids.dtype not in (torch.int64, torch.int32):
            raise InputError(f"row ids are of dtype int64 or int32, not {ids.dtype}")
        look: Any = _Look.apply
        rows: Tensor = look(self.weight, ids, self)
        return rows

    def dense(self) -> Tensor:
        """A copy of the whole table, in memory of its own; not counted as look-ups."""
        table = torch.empty(self.num_embeddings, self.embedding_dim, dtype=self.pages.dtype)
        for start, rows in self.pages.whole():
            table[start : start + len(rows)] = rows
        return table

    def extra_repr(self) -> str:
        """As of `nn.Embedding`, and how much of it is resident."""
        resident = min(self.pages.resident_pages, len(self.pages))
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, {len(self.pages)} pages of "
            f"{self.pages.page_rows} rows, {resident} in the fastest tier"
        )

    def _fill(self, rows_of: Callable[[int, int], Tensor], memory: TieredMemory) -> None:
        self.pages.fill(rows_of)
        self.weight = nn.Parameter(PagedWeight(self.pages, memory))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.dense()

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        _, _, missing, _, errors = rest
        table = state.get(prefix + "weight")
        shape = (self.num_embeddings, self.embedding_dim)
        if table is None:
            missing.append(prefix + "weight")
        elif tuple(table.shape) != shape:
            errors.append(f"{prefix}weight has the shape {tuple(table.shape)}, not {shape}")
        else:
            rows = table.to("cpu", self.pages.dtype)
            step = self.pages.page_rows * 1024
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                self.pages.edit(torch.arange(start, start + len(some)), partial(_copy, some))


def _copy(source: Tensor, rows: Tensor, which: Tensor) -> None:
    rows.copy_(source[which])


class _Look(torch.autograd.Function):
    """Look rows up; backward, a sparse gradient with each row once.

    The gradients of a row that was looked up several times are added by the kernel that adds them
    for a dense `nn.Embedding`, in the same order.
    """

    @staticmethod
    def forward(ctx: Any, weight: PagedWeight, ids: Tensor, module: TieredEmbedding) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.padding, ctx.shape = module.padding_idx, tuple(weight.shape)
        rows = module.pages.take(ids.reshape(-1), grouped=module.grouped)
        return rows.view(*ids.shape, module.embedding_dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        flat = ids.reshape(-1).to("cpu", torch.int64)
        each = gradient.reshape(len(flat), -1).cpu()
        if ctx.padding is not None:
            kept = flat != ctx.padding
            flat, each = flat[kept], each[kept]
        rows, place = torch.unique(flat, return_inverse=True)
        kernel: Any = torch.ops.aten.embedding_dense_backward
        summed = kernel(each, place, len(rows), -1, False)
        sparse = torch.sparse_coo_tensor(
            rows[None], summed, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return sparse, None, None


def _row(index: int | None, rows: int) -> int | None:
    """A row counted from the start; from the end where negative, as in `nn.Embedding`."""
    if index is None:
        return None
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError(f"{index!r} is not the number of a row", key="padding_idx")
    if not -rows <= index < rows:
        raise InputError(f"row {index} is not in a table of {rows} rows", key="padding_idx")
    return index % rows
