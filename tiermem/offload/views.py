"""The bytes of one block where a tier holds them, in one piece or in several, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from tiermem.offload.layout import Layout, as_bytes, fill

Tensor: TypeAlias = Any


def tensors_of(views: Sequence[Any]) -> list[Tensor]:
    """Each view of a grant as a uint8 tensor over the same memory."""
    return [view if isinstance(view, torch.Tensor) else torch.from_numpy(view) for view in views]


def opened(views: Sequence[Any], layout: Layout) -> Tensor:
    """The tensor that a block is: without a copy where the block lies in one piece."""
    parts = tensors_of(views)
    if len(parts) == 1:
        return layout.of_bytes(parts[0])
    return layout.of_bytes(torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8))


def copied(views: Sequence[Any], layout: Layout, device: Any) -> Tensor:
    """The tensor that a block is, in memory of its own on `device`."""
    data = torch.empty(layout.nbytes, dtype=torch.uint8, device=device)
    at = 0
    for part in tensors_of(views):
        data[at : at + len(part)].copy_(part)
        at += len(part)
    assert at == layout.nbytes, "a block has as many bytes as its layout says"
    return layout.of_bytes(data)


def write(views: Sequence[Any], tensor: Tensor) -> None:
    """Write the values of `tensor`, in order, over the block. Whatever the device, the bytes are
    there on return, or ordered before later work on the view's device."""
    parts = tensors_of(views)
    if len(parts) == 1:
        fill(parts[0], tensor)
        return
    data, at = as_bytes(tensor), 0
    for part in parts:
        part.copy_(data[at : at + len(part)])
        at += len(part)
    assert at == len(data), "a block has as many bytes as its tensor"
