"""What the bytes of a block mean: the dtype and shape of a tensor, and back.

Any strided tensor of any dtype becomes bytes and the same tensor again, bit by bit. Nothing here
knows where the bytes are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from tiermem.errors import InputError

Tensor: TypeAlias = Any

# An integer of the same width stands in for a dtype: sub-byte and float8 types have no copy kernel
# of their own on every device, and a copy of an integer changes no bit.
_STANDS_IN = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
_BY_NAME = {str(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)}


@dataclass(frozen=True, slots=True)
class Layout:
    """A dtype and a shape: how many bytes they take, and the tensor that some bytes are."""

    dtype: Any
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous tensor of this layout."""
        return self.count * int(self.dtype.itemsize)

    def of_bytes(self, data: Tensor) -> Tensor:
        """The tensor that `data`, contiguous uint8 of at least `nbytes`, is. No copy."""
        return data[: self.nbytes].view(self.dtype).view(self.shape)

    def to_json(self) -> dict[str, Any]:
        """The layout as a document: `{"dtype": "torch.bfloat16", "shape": [2, 3]}`."""
        return {"dtype": str(self.dtype), "shape": list(self.shape)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Layout:
        """The inverse of `to_json`; a dtype that this torch does not know is an `InputError`."""
        name = str(document["dtype"])
        if name not in _BY_NAME:
            raise InputError(f"{name} is no dtype of torch {torch.__version__}")
        return Layout(_BY_NAME[name], tuple(int(size) for size in document["shape"]))


def layout_of(tensor: Tensor) -> Layout:
    """The layout of a tensor that can be offloaded; another is refused by name.

    Refused are tensors whose values are not simply the bytes at their strides: sparse, nested,
    quantised (their scales are elsewhere) and meta tensors (which have none).
    """
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"a {type(tensor).__name__} is not a tensor")
    why = None
    if tensor.is_nested:
        why = "a nested tensor: offload its parts"
    elif tensor.layout is not torch.strided:
        why = f"of the layout {tensor.layout}: offload its indices and values"
    elif tensor.is_quantized:
        why = f"of the quantised dtype {tensor.dtype}: offload its int_repr() and its scales"
    elif tensor.device.type == "meta":
        why = "a meta tensor and has no bytes"
    if why:
        raise InputError(f"this tensor is {why}")
    return Layout(tensor.dtype, tuple(tensor.shape))


def integers(tensor: Tensor) -> Tensor:
    """The same elements at the same strides as plain integers of their width (complex128 for 16
    bytes). Lazy conjugation and negation are made real first, since bytes cannot be lazy."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.view(_STANDS_IN[plain.dtype.itemsize])


def as_bytes(tensor: Tensor) -> Tensor:
    """The values of `tensor` in order, as contiguous uint8; an alias where it is contiguous."""
    return integers(tensor).contiguous().view(-1).view(torch.uint8)


def fill(target: Tensor, tensor: Tensor) -> None:
    """Write the values of `tensor` in order into `target`, contiguous uint8 of as many bytes."""
    if tensor.numel():
        values = integers(tensor)
        target.view(values.dtype).view(values.shape).copy_(values)


def dense_part(tensor: Tensor) -> tuple[Tensor, tuple[int, ...] | None]:
    """What has to be kept of `tensor`, and the strides that make it whole again.

    A transposed or expanded tensor is kept in the order of its memory, every element once, and
    comes back by `kept.as_strided(shape, strides)`: kernels then see the strides they saw before.
    Strides of None: kept in the order of its values, because its memory has holes or overlaps.
    """
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.is_contiguous() or not tensor.numel() or tensor.is_conj() or tensor.is_neg():
        return tensor, None
    reach = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if stride and size > 1:
            if stride != reach:
                return tensor, None
            reach *= size
    return tensor.as_strided((reach,), (1,), tensor.storage_offset()), strides
