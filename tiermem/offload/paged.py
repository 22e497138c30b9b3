"""A parameter whose rows are pages in tiered memory, for the optimizers of torch.

It has a shape and no storage. What torch's optimizers do with sparse gradients works on it, row by
row: adding a sparse tensor, reading the rows of one, and making another such tensor for their
state. Whatever would need the whole table at once is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import torch

from tiermem.errors import InputError
from tiermem.offload.pages import Pages

Tensor: TypeAlias = Any

_aten: Any = torch.ops.aten


class PagedWeight(torch.Tensor):
    """The rows of `pages` as a tensor of shape (rows, width)."""

    pages: Pages
    _memory: Any

    @staticmethod
    def __new__(cls, pages: Pages, memory: Any) -> PagedWeight:
        """`memory` is where states of its optimizer go."""
        shape = (pages.rows, pages.width)
        make: Any = torch.Tensor._make_wrapper_subclass
        made: PagedWeight = make(cls, shape, dtype=pages.dtype, requires_grad=False)
        made.pages, made._memory = pages, memory
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        """The few operators that work by rows."""
        answer = _ANSWERS.get(function)
        if answer is None or not isinstance(arguments[0], PagedWeight):
            raise InputError(
                f"{function} would need the whole table in memory; by rows there are look-ups, and "
                "the steps of SGD (without weight_decay), Adagrad and SparseAdam; "
                "TieredEmbedding.dense() is a copy of it all"
            )
        return answer(*arguments, **(options or {}))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"PagedWeight({self.pages.rows} x {self.pages.width}, {self.pages.dtype})"

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise InputError("a table in tiered memory cannot be copied: dense() gives a tensor")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError("a table in tiered memory cannot be pickled: save a state_dict() of it")


def filled(like: PagedWeight, value: float) -> PagedWeight:
    """A table of the same shape in the same memory, every value of it `value`."""
    old, memory = like.pages, like._memory
    pages = Pages(memory, old.rows, old.width, old.dtype, old.page_rows)
    pages.fill(lambda start, stop: torch.full((stop - start, old.width), value, dtype=old.dtype))
    return PagedWeight(pages, memory)


def _detach(weight: PagedWeight) -> PagedWeight:
    return PagedWeight(weight.pages, weight._memory)


def _full_like(weight: PagedWeight, value: float, **options: Any) -> PagedWeight:
    dtype = options.get("dtype")
    if dtype not in (None, weight.pages.dtype):
        raise InputError(f"a state in {dtype} for a table in {weight.pages.dtype}: make them one")
    return filled(weight, value)


def _zeros_like(weight: PagedWeight, **options: Any) -> PagedWeight:
    return _full_like(weight, 0.0, **options)


def _add_(weight: PagedWeight, other: Tensor, *, alpha: float = 1) -> PagedWeight:
    """Add the rows of a sparse tensor, as adding a dense one does to them."""
    if not isinstance(other, torch.Tensor) or not other.is_sparse:
        raise InputError("only a sparse tensor can be added to a table: rows, and what they get")
    rows = other.coalesce()
    values = rows.values().to("cpu", weight.pages.dtype)

    def add(some: Tensor, which: Tensor) -> None:
        some.add_(values[which], alpha=alpha)

    weight.pages.edit(rows.indices()[0], add)
    return weight


def _sparse_mask(weight: PagedWeight, mask: Tensor) -> Tensor:
    """The rows that a sparse tensor has, as a sparse tensor."""
    indices = mask.coalesce().indices()
    values = torch.empty((indices.shape[1], weight.pages.width), dtype=weight.pages.dtype)

    def look(some: Tensor, which: Tensor) -> None:
        values[which] = some

    weight.pages.visit(indices[0], look)
    return torch.sparse_coo_tensor(
        indices, values, weight.shape, is_coalesced=True, check_invariants=False
    )


_ANSWERS: dict[Any, Callable[..., Any]] = {
    _aten.detach.default: _detach,
    _aten.full_like.default: _full_like,
    _aten.zeros_like.default: _zeros_like,
    _aten.add_.Tensor: _add_,
    _aten.sparse_mask.default: _sparse_mask,
}
