"""What stands for a weight while its bytes are elsewhere.

It has the shape, dtype and device of the weight and no storage. Whatever would look at its values
raises. Tensors on the meta device would not do: out of one of them and one that is real torch makes
a real one, of arbitrary bytes.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tiermem.errors import InputError


class Away(torch.Tensor):
    """A weight that is not here; `weight` says which in its errors."""

    weight: str

    @staticmethod
    def __new__(cls, like: Any, weight: str) -> Away:
        """For the parameter `like`, of which nothing is kept."""
        make: Any = torch.Tensor._make_wrapper_subclass
        made: Away = make(cls, tuple(like.shape), dtype=like.dtype, device=like.device)
        made.weight = weight
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        """Another name for it is all that can be had of it."""
        if function is torch.ops.aten.detach.default:
            return Away(arguments[0], arguments[0].weight)
        found = [e for e in pytree.tree_leaves((arguments, options)) if isinstance(e, Away)]
        named = found[0].weight if found else "a weight"
        raise InputError(
            f"{named} is offloaded, and {function} asked for it while it was away: where a module "
            "reads the weights of another one, give its type as whole=[...]; state_dict() has the "
            "values, and restore() brings them back"
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Away({self.weight}, {tuple(self.shape)}, {self.dtype})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError(f"{self.weight} is offloaded and cannot be pickled: save a state_dict()")


def away(parameter: Any, weight: str) -> Any:
    """A parameter that stands for `parameter`, and needs a gradient exactly if that does."""
    return nn.Parameter(Away(parameter, weight), parameter.requires_grad)
