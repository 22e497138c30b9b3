"""The parts of the lower floors, put together and played.

What comes out is a `Run`: tables folded from the log, nothing measured on the side.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from tiermem import registry
from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.core.driver import Driver, Tap
from tiermem.core.messages import Submit
from tiermem.errors import InputError, TiermemError
from tiermem.models.llm import LLM
from tiermem.models.presets import System, kv_room_bytes
from tiermem.models.roofline import Roofline
from tiermem.scenario.tables import (
    counters,
    moves_table,
    occupancy_table,
    requests_table,
    steps_table,
)
from tiermem.serving.engine import Engine, Limits
from tiermem.sim.executor import SimExecutor
from tiermem.traces.log import Log
from tiermem.traces.trace import Ints, Trace
from tiermem.units import format_bytes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulation to run. `policy` is a spec such as `lru` or `my_file:MyPolicy:order=forward`.

    `seed` names the random streams of the run; nothing in today's simulator draws from them.
    `max_sequences` and `max_step_tokens` are the engine's batch limits.
    """

    trace: Trace
    system: System
    llm: LLM
    policy: str = "lru"
    seed: int = 0
    max_sequences: int = 256
    max_step_tokens: int = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What one simulation saw; see `docs/architecture.md` for the columns of `tables`."""

    policy: str
    system: str
    llm: str
    trace: str
    tiers: tuple[str, ...]
    capacities: dict[str, int]
    tables: dict[str, pd.DataFrame]
    counters: dict[str, int]
    warnings: tuple[str, ...]
    finished_ns: int
    meta: dict[str, Any] = field(default_factory=dict)


def capacities_for_kv(system: System, llm: LLM) -> dict[str, int]:
    """Bytes each tier has for KV: the first tier's after weights, the others' whole."""
    tiers = system.topology.tiers
    rooms = {tier.name: tier.capacity_bytes for tier in tiers}
    rooms[tiers[0].name] = kv_room_bytes(system, llm)
    return rooms


class Simulation:
    """The parts of one run, joined: a brain (engine and controller), a body, a log."""

    def __init__(self, scenario: Scenario, taps: tuple[Tap, ...] = ()) -> None:
        system, llm, trace = scenario.system, scenario.llm, scenario.trace
        topology = system.topology
        first = topology.tiers[0]
        if first.compute is None:
            raise InputError(f"system {system.name}: its first tier {first.name} cannot compute")
        self.scenario = scenario
        self.capacities = capacities_for_kv(system, llm)
        _check_capacities(self.capacities, trace, llm)
        cost = Roofline(llm, first.compute)
        per_token = llm.kv_bytes_per_token

        def recompute_ns(nbytes_before: int, nbytes: int) -> int:
            return cost.prefill_ns(nbytes // per_token, nbytes_before // per_token)

        ids = count(1)
        limits = Limits(
            trace.block_tokens,
            per_token,
            llm.max_context_tokens,
            scenario.max_sequences,
            scenario.max_step_tokens,
        )
        policy = make_policy(scenario.policy, self.capacities)
        try:  # it is asked its first questions here
            self.controller = Controller(
                topology, self.capacities, policy, recompute_ns=recompute_ns, ids=ids
            )
            self.engine = Engine(self.controller, limits, (first.name,), ids)
        except TiermemError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"policy {scenario.policy!r} cannot be used: {reason}") from error
        self.executor = SimExecutor(topology, cost)
        self.log = Log(self.controller.table.rooms)
        self.driver = Driver(self.engine, self.executor, (self.log, *taps))

    def run(self, progress: Progress | None = None) -> None:
        """Play the whole trace. `progress(finished, requests)` is called now and then."""
        collecting = gc.isenabled()
        gc.disable()  # a run makes no cycles, and walking every copy again and again costs a fifth
        try:
            self._play(progress)
        finally:
            if collecting:
                gc.enable()

    def _play(self, progress: Progress | None) -> None:
        trace = self.scenario.trace
        ids, offsets = block_identities(trace).tolist(), trace.block_offsets.tolist()
        columns = zip(
            trace.arrival_ns.tolist(),
            trace.prompt_tokens.tolist(),
            trace.output_tokens.tolist(),
            strict=True,
        )
        for request, (arrival, prompt, output) in enumerate(columns):
            blocks = _chain(ids[offsets[request] : offsets[request + 1]])
            self.driver.post(Submit(request, arrival, prompt, output, blocks))
        if progress is None:
            self.driver.run()
            return
        left, total = len(trace), len(trace)

        def reached_goal() -> bool:
            return self.engine.left <= goal

        while left:
            goal = left - 500
            self.driver.run(reached_goal)
            progress(total - self.engine.left, total)
            if self.engine.left > goal:
                return
            left = self.engine.left


def block_identities(trace: Trace) -> Ints:
    """[references] the block ids, with one of its own for each length that an id comes in.

    In a trace of prefix ids a partial tail has its own id. Where an id names a whole block here
    and a shorter one there, the short one does not hold the KV of the long one.
    """
    counts = np.diff(trace.block_offsets)
    tokens = np.full(trace.references, trace.block_tokens, dtype=np.int64)
    tails = trace.prompt_tokens - (counts - 1) * trace.block_tokens
    partial = (counts > 0) & (tails < trace.block_tokens)
    tokens[trace.block_offsets[1:][partial] - 1] = tails[partial]
    longest = np.zeros(trace.unique_blocks, dtype=np.int64)
    np.maximum.at(longest, trace.block_ids, tokens)
    short = tokens < longest[trace.block_ids]
    ids = trace.block_ids.copy()
    if short.any():
        pairs = np.stack([trace.block_ids[short], tokens[short]])
        _, own = np.unique(pairs, axis=1, return_inverse=True)
        ids[short] = trace.unique_blocks + own.reshape(-1)
    return ids


def _chain(blocks: list[int]) -> tuple[int, ...]:
    """The blocks up to the first that is named twice: past it, a prompt is no chain of prefixes,
    and its tokens have no identity."""
    if len(set(blocks)) == len(blocks):
        return tuple(blocks)
    seen: set[int] = set()
    for index, block in enumerate(blocks):
        if block in seen:
            return tuple(blocks[:index])
        seen.add(block)
    raise AssertionError("unreachable")


def simulate(
    scenario: Scenario, progress: Progress | None = None, taps: tuple[Tap, ...] = ()
) -> Run:
    """Play `scenario`; every number in the result is folded from the log.

    Raises `DoesNotFit` when the weights do not fit, `UnknownName` for a policy that is not there.
    """
    simulation = Simulation(scenario, taps)
    simulation.run(progress)
    return fold(simulation)


def fold(simulation: Simulation) -> Run:
    """The tables of a finished simulation."""
    scenario, log = simulation.scenario, simulation.log
    tiers = scenario.system.topology.names
    requests = requests_table(log, tiers)
    warnings = [f"request {request} rejected: {reason}" for request, reason in log.reasons.items()][
        :3
    ]
    if len(log.reasons) > len(warnings):
        warnings.append(f"{len(log.reasons) - len(warnings)} more requests rejected")
    unfinished = int((requests["state"] == "unfinished").sum())
    if unfinished:
        warnings.append(f"{unfinished} requests unfinished: {_why(simulation)}")
    return Run(
        policy=registry.parse_spec(scenario.policy).label,
        system=scenario.system.name,
        llm=scenario.llm.name,
        trace=scenario.trace.name,
        tiers=tuple(tiers),
        capacities=dict(simulation.capacities),
        tables={
            "requests": requests,
            "moves": moves_table(log),
            "occupancy": occupancy_table(log, tiers),
            "steps": steps_table(log),
        },
        counters=counters(log, tiers, simulation.executor.scheduled_events),
        warnings=tuple(warnings),
        finished_ns=simulation.executor.now(),
    )


def _why(simulation: Simulation) -> str:
    """What the requests that were left over wait for."""
    first = ", ".join(str(request) for request in simulation.engine.unfinished[:3])
    stuck = [
        f"{format_bytes(room.evictable_bytes)} of {room.name} could be evicted, "
        "but the policy names no victim there"
        for room in simulation.controller.table.rooms.values()
        if room.evictable_bytes
    ]
    reason = "; ".join(stuck) or "nothing is left that could make room for them"
    return f"{first} (the first ones) wait for room; {reason}"


def _check_capacities(capacities: dict[str, int], trace: Trace, llm: LLM) -> None:
    """A tier too small for a single block is a slip of the unit, not a machine."""
    block_bytes = trace.block_tokens * llm.kv_bytes_per_token
    for name, capacity in capacities.items():
        if capacity < block_bytes:
            raise InputError(
                f"{name} of {format_bytes(capacity)} holds no block: {trace.block_tokens} tokens "
                f"of {llm.name} are {format_bytes(block_bytes)} (sizes take a unit, as in 64GiB)",
                key="capacity",
            )
