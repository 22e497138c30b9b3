"""Units: the weights of a module that are needed at one time, and the order they are found in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import nn

from tiermem.offload.layout import layout_of
from tiermem.offload.loan import Loan
from tiermem.offload.tensor import TieredTensor
from tiermem.runtime.sizes import charged_bytes

Module: TypeAlias = Any

WHOLE: tuple[Any, ...] = (
    *(nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
)
"""Modules that read the weights of their children without calling them: always one unit."""


class Weight(NamedTuple):
    """A parameter where its owner has it."""

    owner: Module
    name: str
    parameter: Any


class Place(NamedTuple):
    """Where an offloaded weight belongs, and what stands there while it is away."""

    owner: Module
    name: str
    handle: TieredTensor
    placeholder: Any


class Unit:
    """Weights that come and go together. `around` are the units that are open while it runs."""

    def __init__(self, module: Module, weights: list[Weight], around: tuple[Unit, ...]) -> None:
        self.module = module
        self.weights = weights  # not offloaded yet
        self.around = around
        self.places: list[Place] = []
        sizes = {id(w.parameter): layout_of(w.parameter).nbytes for w in weights}
        self.charge = sum(charged_bytes(nbytes) for nbytes in sizes.values())
        self.mutex = threading.Lock()  # of those who enter and leave it, not of those inside
        self.users = 0
        self._loan: Loan | None = None

    @property
    def handles(self) -> list[TieredTensor]:
        """Its weights, each once."""
        return list({place.handle.block: place.handle for place in self.places}.values())

    def fill(self, loan: Loan) -> None:
        """Put the weights in place; they are read where the loan has them."""
        tensors = dict(zip([h.block for h in self.handles], loan.tensors, strict=True))
        made: dict[int, Any] = {}
        for owner, name, handle, placeholder in self.places:
            if handle.block not in made:
                tensor = tensors[handle.block].to(handle.device)
                made[handle.block] = nn.Parameter(tensor, placeholder.requires_grad)
            setattr(owner, name, made[handle.block])
        self._loan = loan

    def empty(self) -> None:
        """Put the placeholders back, and let the weights go."""
        for place in self.places:
            setattr(place.owner, place.name, place.placeholder)
        loan, self._loan = self._loan, None
        if loan is not None:
            loan.release()


def units_of(module: Module, whole: Sequence[Any] = ()) -> list[Unit]:
    """The units of `module` in the order of its modules; each module is in one of them."""
    return list(_found(module, (*WHOLE, *whole), (), set()))


def _found(
    module: Module, whole: tuple[Any, ...], around: tuple[Unit, ...], seen: set[int]
) -> Iterator[Unit]:
    if id(module) in seen:
        return
    seen.add(id(module))
    together = isinstance(module, whole)
    inside = [each for each in module.modules() if together and id(each) not in seen]
    seen.update(map(id, inside))
    weights = [
        Weight(owner, name, parameter)
        for owner in (module, *inside)
        for name, parameter in owner._parameters.items()
        if parameter is not None
    ]
    if weights:
        unit = Unit(module, weights, around)
        around = (*around, unit)
        yield unit
    for child in module.children():
        yield from _found(child, whole, around, seen)
