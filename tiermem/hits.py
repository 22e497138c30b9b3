"""How many block references hit, exactly: one tier, blocks of one size, no clock, no leases.

`count` runs a trace reference by reference through eviction orders and bounds. Inside a request
blocks are used in one of two orders. "forward": each reference looks for its block and uses it,
head before tail. "reverse": all references of a request look at its start, and are then used tail
before head, so that the head of a prefix is the last to go. A block hit is any reference that finds
its block; a prefix hit is one with no miss before it in its request. LRU, FIFO, the bounds and the
infinite cache are counted in array code (`curves`), any other class by calling it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from tiermem import registry
from tiermem.core.policy import Evict
from tiermem.curves import belady, fifo, infinite, lru, replay
from tiermem.curves.recurrence import Flags
from tiermem.curves.tally import tally
from tiermem.errors import InputError, TiermemError, UnknownName
from tiermem.policies.fifo import FIFO
from tiermem.policies.lru import LRU
from tiermem.registry import Spec
from tiermem.traces.trace import Trace

GROUP = "tiermem.evict"
ORDERS = ("reverse", "forward")
BLOCKS_MAX = 2**48  # more than any machine has, and exact in array code

_BOUNDS = {
    "belady": "Most block hits if every missing block must be inserted; knows the future.",
    "belady-bypass": "Most block hits if a missing block may be left out; knows the future.",
    "infinite": "A cache that never evicts: only first uses miss.",
}
# What a spec may say about where blocks go, for simulations. Here there is one tier.
_PLACEMENT = ("place", "prefetch")


@dataclass(frozen=True, slots=True)
class HitRow:
    """Hits of one policy, as it was named, at one capacity (None for the infinite cache)."""

    policy: str
    capacity_blocks: int | None
    order: str
    references: int
    block_hits: int
    prefix_hits: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)


def count(
    trace: Trace,
    policies: Sequence[str],
    capacities: Sequence[int],
    order: str = "reverse",
) -> list[HitRow]:
    """Hits of each policy at each capacity in blocks, rows in the order given.

    A policy is a name of `policy_rows()`, or `module:Class`, with parameters as
    `s3fifo:small=0.2`. The parameter `order` sets that policy's own order. `infinite` has one row.
    Raises `UnknownName` or `InputError` for what cannot be counted, before anything is, and
    `InputError` that names the policy when its code fails.
    """
    _known("order", order, ORDERS)
    for capacity in capacities:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise InputError(f"{capacity!r} is not a number of blocks, 1 or more", key="capacity")
        if capacity > BLOCKS_MAX:
            raise InputError(f"{capacity} is more than {BLOCKS_MAX} blocks", key="capacity")
    plans = [_plan(text, order) for text in policies]
    if not plans:
        raise InputError("no policy was named", key="policy")
    if not capacities and any(plan.target != "infinite" for plan in plans):
        raise InputError("no capacity was given", key="capacity")
    for plan in plans:
        if plan.make is not None:
            plan.make(max(capacities))  # refuses parameters that are wrong
    return [row for plan in plans for row in _rows(plan, trace, capacities)]


def bounds() -> tuple[str, ...]:
    """Names that are no policy but what no policy can beat; only `count` knows them."""
    return tuple(_BOUNDS)


def policy_rows() -> list[dict[str, Any]]:
    """Each name that `count` takes: `name`, `kind` ("evict" or "bound"), `summary`, and `simulate`,
    whether simulations take it too."""
    rows = []
    for name in registry.names(GROUP):
        try:
            text = inspect.getdoc(registry.find(GROUP, name, kind="policy")) or ""
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # somebody's broken plug-in must not hide the others
            cause = error.__cause__ if isinstance(error, InputError) else error
            text = f"cannot be loaded: {registry.reason(cause or error)}"
        summary = " ".join(text.partition("\n\n")[0].split())
        rows.append({"name": name, "kind": "evict", "summary": summary, "simulate": True})
    for name, summary in _BOUNDS.items():
        rows.append({"name": name, "kind": "bound", "summary": summary, "simulate": False})
    return rows


def without_placement(text: str) -> str:
    """The policy `text` of a simulation as `count` takes it: without `place` and `prefetch`."""
    spec = registry.parse_spec(text)
    kept = tuple((key, value) for key, value in spec.parameters if key not in _PLACEMENT)
    return Spec(spec.target, kept).label


@dataclass(frozen=True, slots=True)
class _Plan:
    """One policy, checked: its name in the rows, its order, and how to make it (None: a bound)."""

    label: str
    target: str
    order: str
    plugin: Any
    make: Callable[[int], Evict] | None


def _plan(text: str, order: str) -> _Plan:
    spec = registry.parse_spec(text)
    kept = []
    for key, value in spec.parameters:
        if key == "order":
            order = _known("order", str(value), ORDERS)
        elif key in _PLACEMENT:
            raise InputError(f"{text!r}: {key}= has no meaning for hits, which know one tier")
        else:
            kept.append((key, value))
    if spec.target in _BOUNDS:
        for key, _ in kept:
            raise UnknownName(f"parameter of {spec.target!r}:", key, ["order"])
        return _Plan(spec.label, spec.target, order, None, None)
    if ":" not in spec.target:
        _known("policy", spec.target, [*registry.names(GROUP), *_BOUNDS])
    plugin = registry.find(GROUP, spec.target, kind="policy")
    make = partial(registry.make, plugin, Spec(spec.target, tuple(kept)), kind="policy")
    return _Plan(spec.label, spec.target, order, plugin, make)


def _known(kind: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise UnknownName(kind, name, names)
    return name


def _rows(plan: _Plan, trace: Trace, capacities: Sequence[int]) -> Iterator[HitRow]:
    hits_at = _counter(plan, trace)
    sizes = [None] if plan.target == "infinite" else capacities
    for capacity in sizes:
        found = hits_at(capacity or 0)
        block_hits, prefix_hits = tally(found, trace.block_offsets)
        references = len(trace.block_ids)
        yield HitRow(plan.label, capacity, plan.order, references, block_hits, prefix_hits)


def _counter(plan: _Plan, trace: Trace) -> Callable[[int], Flags]:
    """Which references hit, as a function of the capacity."""
    stream = trace.block_ids, trace.block_offsets
    if plan.target == "infinite":
        return lambda capacity: infinite.hits(*stream, plan.order)
    if plan.target in _BOUNDS:
        bypass = plan.target == "belady-bypass"
        return lambda capacity: belady.hits(*stream, capacity, plan.order, bypass=bypass)
    if plan.plugin is LRU:
        distances = lru.stack_distances(*stream, plan.order)
        return lambda capacity: distances < capacity
    if plan.plugin is FIFO:
        return lambda capacity: fifo.hits(*stream, capacity, plan.order)
    return partial(_replayed, plan, trace)


def _replayed(plan: _Plan, trace: Trace, capacity: int) -> Flags:
    assert plan.make is not None
    evict = plan.make(capacity)
    try:
        return replay.hits(evict, trace.block_ids, trace.block_offsets, capacity, plan.order)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the policy is somebody's code: name it, whatever it raised
        text = str(error) if isinstance(error, TiermemError) else repr(error)
        raise InputError(f"policy {plan.label!r} failed at {capacity} blocks: {text}") from error
