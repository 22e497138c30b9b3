"""Tensors that are read where they lie: what a grant of their blocks becomes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import torch

from tiermem.errors import RuntimeFault
from tiermem.offload import views
from tiermem.offload.codec import Codec
from tiermem.offload.layout import Layout
from tiermem.offload.tensor import TensorLost, TieredTensor
from tiermem.runtime.grants import Grant

Tensor: TypeAlias = Any


class Loan:
    """Tensors in the order of their handles, to be read until `release`."""

    def __init__(self, handles: Sequence[TieredTensor], grant: Grant) -> None:
        """`grant` is of the blocks of `handles`; `TensorLost` if one is not there, and then it is
        released."""
        self._grant = grant
        try:
            require(handles, grant)
            self.tensors: list[Tensor] = [_opened(handle, grant) for handle in handles]
        except BaseException:
            grant.release()
            raise

    def release(self) -> None:
        """The tensors are not to be looked at any more."""
        self.tensors = []
        with suppress(RuntimeFault):  # closed meanwhile: there is nothing to give back any more
            self._grant.release()


def require(handles: Sequence[TieredTensor], grant: Grant) -> None:
    """`TensorLost` that names the first of `handles` whose bytes are not there."""
    if grant.ready_blocks < len(grant.blocks):
        lost = grant.blocks[grant.ready_blocks]
        named = next(repr(handle) for handle in handles if handle.block == lost)
        raise TensorLost(
            f"{named} is in no tier any more: it was cleared, or a device could not give it back "
            "(status() counts which); it has to be put again"
        )


def loaded(handle: TieredTensor, grant: Grant, device: Any) -> Tensor:
    """The tensor of a grant of its block, in memory of its own on `device`."""
    require((handle,), grant)
    if handle.codec is None:
        return views.copied(grant.views(handle.block), handle.layout, device)
    return _decoded(handle, grant).to(device)


def _opened(handle: TieredTensor, grant: Grant) -> Tensor:
    if handle.codec is None:
        return views.opened(grant.views(handle.block), handle.layout)
    return _decoded(handle, grant)


def _decoded(handle: TieredTensor, grant: Grant) -> Tensor:
    data = views.opened(grant.views(handle.block), Layout(torch.uint8, (handle.nbytes,)))
    made = torch.empty(handle.shape, dtype=handle.dtype, device=data.device)
    Codec(str(handle.codec)).decode(data, made)
    return made
