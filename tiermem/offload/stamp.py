"""Whether the weights of a model are still those that they were.

A stamp names every parameter and buffer: which tensor it is, where its bytes are, and how often
torch saw them change. What goes past torch's own count (`p.data.mul_(2)`) is found by a sample of
the values; a change of a few single values behind `.data` is not.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any
Stamp: TypeAlias = tuple[Any, ...]

SAMPLE = 64
"""Values looked at in each tensor: a millisecond or two for a model of 272 tensors."""


def stamp_of(model: Any) -> Stamp:
    """What is equal to an earlier one as long as no change of the weights is noticed."""
    names: list[Any] = []
    samples: dict[Any, list[Tensor]] = {}
    with torch.no_grad():
        for tensor in chain(model.parameters(), model.buffers()):
            version = 0 if tensor.is_inference() else tensor._version
            if not _has_bytes(tensor):
                names.append((tuple(tensor.shape), version))
                continue
            names.append((id(tensor), tensor.data_ptr(), version))
            if tensor.numel():
                kind = (tensor.dtype, tensor.device)
                samples.setdefault(kind, []).append(_sample(tensor))
        values = [_bytes(torch.cat(some)) for some in samples.values()]
    return (*names, *values)


def _has_bytes(tensor: Tensor) -> bool:
    """Not so: meta tensors, and what stands for weights that are elsewhere or in parts."""
    plain = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    return plain and tensor.device.type != "meta" and tensor.layout is torch.strided


def _sample(tensor: Tensor) -> Tensor:
    """SAMPLE values or fewer, evenly from the whole tensor, the first and the last among them."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    count = min(SAMPLE, tensor.numel())
    step = max(1, (tensor.numel() - 1) // max(1, count - 1))
    return tensor.as_strided((count,), (step,))


def _bytes(values: Tensor) -> bytes:
    return bytes(values.cpu().view(torch.uint8).numpy().tobytes())
