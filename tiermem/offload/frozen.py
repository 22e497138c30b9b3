"""A barrier for gradients: values pass, a backward that comes to it is told why it cannot go on."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from tiermem.errors import TiermemError


class NoGradient(TiermemError):
    """A backward reached weights that are offloaded."""


def frozen(output: Any, what: str) -> Any:
    """`output` with its floating tensors joined to a graph in which a backward raises `NoGradient`
    about `what`; tensors that belong to a graph already are left alone."""
    leaves, tree = pytree.tree_flatten(output)
    at = [
        index
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
        and not leaf.requires_grad
        and not leaf.is_inference()
        and (leaf.is_floating_point() or leaf.is_complex())
    ]
    if not at:
        return output
    anchor = torch.empty(0, requires_grad=True)
    apply: Any = _Barrier.apply
    for index, tensor in zip(at, apply(anchor, what, *(leaves[i] for i in at)), strict=True):
        leaves[index] = tensor
    return pytree.tree_unflatten(leaves, tree)


class _Barrier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Any, what: str, *tensors: Any) -> Any:
        ctx.what = what
        ctx.mark_dirty(*tensors)  # the same tensors, not views, so that they can be written to
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> NoReturn:
        raise NoGradient(
            f"no gradient comes through {ctx.what}: its weights are offloaded, and not there any "
            "more when the backward begins; restore() it to train it, or what is before it"
        )
