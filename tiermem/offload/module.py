"""A module whose weights live in tiered memory and are brought one unit ahead of the forward.

While a unit runs its weights are leased and read where they lie; those of the unit that came next
the last time are already on their way. In between the parameters have a shape and no bytes: a use
outside of the forward is an error and not a tensor of zeros (see `away`).

What runs so gives the same bits as before. It gives no gradients: a backward through it raises.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

import torch
from torch import nn

from tiermem.errors import DoesNotFit, InputError
from tiermem.offload.away import away
from tiermem.offload.frozen import frozen
from tiermem.offload.heap import trim
from tiermem.offload.ledger import exactly
from tiermem.offload.loan import Loan
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TieredTensor
from tiermem.offload.units import Place, Unit, units_of
from tiermem.runtime.grants import Grant

Module: TypeAlias = Any

_TRIM_BYTES = 32 << 20
"""Weights moved between two times that what they leave behind is given back to the system."""

_ATTRIBUTE = "_tiermem_streaming"


def offload(what: Any, memory: TieredMemory, whole: Sequence[Any] = ()) -> Any:
    """A tensor into `memory`: its `TieredTensor`. A module: itself, its weights streamed.

    The weights are moved one by one, so that no second copy of all of them is ever there. `whole`
    are types of modules that become one unit with all that is in them, such as a decoder layer.
    `DoesNotFit` when a unit, with those it runs inside of, is larger than the fastest tier, or
    when all of it is larger than what is left of the largest; then nothing has changed.
    """
    if isinstance(what, torch.Tensor):
        return memory.put(what)
    if not isinstance(what, nn.Module):
        raise InputError(f"a {type(what).__name__} is neither a tensor nor a module")
    if getattr(what, _ATTRIBUTE, None) is not None:
        raise InputError("this module is offloaded already: restore() it first")
    setattr(what, _ATTRIBUTE, Streaming(what, memory, whole))
    return what


def restore(module: Module) -> Module:
    """Bring the weights of an offloaded module back to where they were, for good."""
    streaming_of(module).close()
    setattr(module, _ATTRIBUTE, None)
    return module


def streaming_of(module: Module) -> Streaming:
    """What streams the weights of an offloaded module; `InputError` for another one."""
    found = getattr(module, _ATTRIBUTE, None)
    if not isinstance(found, Streaming):
        raise InputError("this module is not offloaded")
    return found


class _Thread(threading.local):
    """What one thread is in the middle of."""

    def __init__(self) -> None:
        self.calls: list[tuple[Unit, bool | None]] = []  # whether gradients were on; None: failed
        self.last: Unit | None = None
        self.depth = 0


class Streaming:
    """The weights of one module on their way. `ahead` counts the units whose weights were sent for
    before they were needed, `late` those that nobody expected."""

    def __init__(self, module: Module, memory: TieredMemory, whole: Sequence[Any] = ()) -> None:
        self.memory = memory
        self.units = units_of(module, whole)
        self.ahead = self.late = 0
        self._name = type(module).__name__
        self._after = dict(pairwise(self.units))
        self._mutex = threading.Lock()  # of what follows; nobody waits for room with it
        self._open_bytes = 0
        self._coming: tuple[Unit, Future[Grant]] | None = None
        self._thread = _Thread()
        self._hooks: list[Any] = []
        self._check()
        try:
            self._take()
            self._watch(module)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Put every weight back into memory of its own and stop. Tied weights stay tied."""
        self._expect(None)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        made: dict[int, Any] = {}
        for unit in self.units:
            for owner, name, handle, placeholder in unit.places:
                if handle.block not in made:
                    made[handle.block] = nn.Parameter(handle.load(), placeholder.requires_grad)
                    handle.free()
                setattr(owner, name, made[handle.block])
            unit.places.clear()

    # -- at the start --------------------------------------------------------------------------

    def _check(self) -> None:
        name, room = self.memory.ledger.fastest
        for unit in self.units:
            need = unit.charge + sum(each.charge for each in unit.around)
            if need > room:
                raise DoesNotFit(
                    f"{type(unit.module).__name__} needs {exactly(need)} of weights at one time, "
                    f"those it runs inside of included, and tier {name!r} has {exactly(room)}"
                )
        sizes = {id(w.parameter): w.parameter.nbytes for u in self.units for w in u.weights}
        self.memory.ledger.check_all(sizes.values())

    def _take(self) -> None:
        """Move the weights into the memory, one after another."""
        moved = 0
        taken: dict[int, tuple[TieredTensor, Any]] = {}  # by the id of what is alive in `weights`
        for unit in self.units:
            while unit.weights:
                owner, name, parameter = unit.weights[0]
                if id(parameter) not in taken:
                    placeholder = away(parameter, f"{name} of a {type(owner).__name__}")
                    taken[id(parameter)] = self.memory.put(parameter), placeholder
                handle, placeholder = taken[id(parameter)]
                unit.places.append(Place(owner, name, handle, placeholder))
                setattr(owner, name, placeholder)
                del unit.weights[0], parameter
            moved += unit.charge
            if moved >= _TRIM_BYTES:
                moved = 0
                trim()
        trim()

    def _watch(self, module: Module) -> None:
        owners = {}
        for unit in self.units:
            enter, leave = partial(self._enter, unit), partial(self._leave, unit)
            self._hooks += [
                unit.module.register_forward_pre_hook(enter, prepend=True),
                unit.module.register_forward_hook(leave, always_call=True),
            ]
            owners.update({id(place.owner): place.owner for place in unit.places})
        for owner in owners.values():
            self._hooks += [
                owner.register_state_dict_post_hook(partial(self._save)),
                owner.register_load_state_dict_pre_hook(_refuse_to_load),
            ]
        self._hooks += [
            module.register_forward_pre_hook(self._begin, prepend=True),
            module.register_forward_hook(self._end, always_call=True),
        ]

    # -- while it runs -------------------------------------------------------------------------

    def _enter(self, unit: Unit, module: Module, arguments: Any) -> None:
        calls = self._thread.calls
        calls.append((unit, None))  # should the weights not come, `_leave` still finds a call
        self._open(unit)
        calls[-1] = unit, torch.is_grad_enabled()
        torch.set_grad_enabled(False)  # no graph may keep what is only lent

    def _leave(self, unit: Unit, module: Module, arguments: Any, output: Any) -> Any:
        calls = self._thread.calls
        if not calls or calls[-1][0] is not unit:
            return None  # somebody else's hook failed before ours
        _, gradients = calls.pop()
        if gradients is None:
            return None
        torch.set_grad_enabled(gradients)
        self._shut(unit)
        return frozen(output, self._name) if gradients else None

    def _begin(self, module: Module, arguments: Any) -> None:
        self._thread.depth += 1

    def _end(self, module: Module, arguments: Any, output: Any) -> None:
        self._thread.depth -= 1
        if self._thread.depth <= 0:
            self._thread.last, self._thread.depth = None, 0
            self._expect(None)  # what is idle pins nothing

    def _open(self, unit: Unit) -> None:
        with unit.mutex:
            if not unit.users:
                handles = unit.handles
                unit.fill(Loan(handles, self._grant(unit, handles)))
                with self._mutex:
                    self._open_bytes += unit.charge
            unit.users += 1
        last, self._thread.last = self._thread.last, unit
        if last is not None:
            self._after[last] = unit
        self._expect(self._after.get(unit))

    def _shut(self, unit: Unit) -> None:
        with unit.mutex:
            unit.users -= 1
            if not unit.users:
                unit.empty()
                with self._mutex:
                    self._open_bytes -= unit.charge

    def _grant(self, unit: Unit, handles: Sequence[TieredTensor]) -> Grant:
        """The lease of a unit: the one that is on its way, or a new one."""
        with self._mutex:
            coming, self._coming = self._coming, None
            expected = coming is not None and coming[0] is unit
            self.ahead, self.late = self.ahead + expected, self.late + (not expected)
        if coming is not None and expected:
            with contextlib.suppress(FutureTimeout):
                return coming[1].result(self.memory.runtime.timeout_s)
        _give_up(coming)
        return self.memory.runtime.acquire(self.memory.blocks_of(handles))

    def _expect(self, unit: Unit | None) -> None:
        """Send for the weights of `unit` alone, if there is room beside what is open."""
        with self._mutex:
            if self._coming is not None and self._coming[0] is unit:
                return
            before, self._coming = self._coming, None
            room = self.memory.fastest_bytes - self._open_bytes
            if unit is not None and not unit.users and unit.charge <= room:
                blocks = self.memory.blocks_of(unit.handles)
                self._coming = unit, self.memory.runtime.acquire_soon(blocks)
        _give_up(before)

    # -- state ---------------------------------------------------------------------------------

    def _save(self, owner: Module, state: dict[str, Any], prefix: str, _: Any) -> None:
        """The values of the weights in a state_dict, in memory of their own."""
        for unit in self.units:
            for place in unit.places:
                if place.owner is owner:
                    state[prefix + place.name] = place.handle.load()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise InputError("an offloaded module cannot be copied: restore() it first")

    def __reduce__(self) -> NoReturn:
        raise InputError("an offloaded module cannot be pickled: save its state_dict()")


def _give_up(coming: tuple[Unit, Future[Grant]] | None) -> None:
    """Nobody wants this lease: it is released whenever it is granted."""
    if coming is not None and not coming[1].cancel():
        coming[1].add_done_callback(_release)


def _release(future: Future[Grant]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().release()


def _refuse_to_load(owner: Module, *_: Any) -> NoReturn:
    raise InputError(
        f"the weights of this {type(owner).__name__} are offloaded: load the state_dict first and "
        "offload the module then, or restore() it"
    )
