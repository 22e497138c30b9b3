"""A small server in virtual time: one byte per token, ten tokens a block, 100 ns a pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tiermem.core.controller import Controller
from tiermem.core.driver import Driver
from tiermem.core.messages import Begin, Emit, Reject, Run, Submit
from tiermem.core.policy import Parts
from tiermem.models.link import Link
from tiermem.models.operators import Step
from tiermem.models.roofline import Lines
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.policies.lru import LRU
from tiermem.policies.placement import NoPrefetch, Waterfall
from tiermem.serving.engine import Engine, Limits
from tiermem.sim.executor import SimExecutor
from tiermem.traces.log import Tape

PASS_NS = 100


class Clockwork:
    """Every pass takes 100 ns, whatever is in it."""

    def times(self, step: Step) -> Lines:
        return Lines(0, (float(PASS_NS), 0.0), (0.0, 0.0))


class Server:
    """Engine, controller and simulated body; a byte takes one nanosecond from or to DRAM."""

    def __init__(self, hbm: int, dram: int, context: int, **batch_limits: int) -> None:
        self.tape = Tape()
        tiers = (
            Tier("hbm", "hbm", hbm, 1e12, 1e12, 0),
            Tier("dram", "dram", dram, 1e9, 1e9, 0),
        )
        wires = tuple(Link(f"to {tier.name}", (tier.name, "host"), 1e12, True, 0) for tier in tiers)
        topology = Topology(tiers, wires)
        capacities = {"hbm": hbm, "dram": dram}
        ids = count(1)
        policy = Parts(LRU, Waterfall(ahead=0.0), NoPrefetch(), capacities)
        self.controller = Controller(topology, capacities, policy, ids=ids)
        self.engine = Engine(self.controller, Limits(10, 1, context, **batch_limits), ("hbm",), ids)
        self.body = SimExecutor(topology, Clockwork())
        self.driver = Driver(self.engine, self.body, (self.tape,))
        self.asked = 0

    def ask(
        self, prompt: int, output: int, blocks: tuple[int, ...] | None = None, *, at: int = 0
    ) -> int:
        """Submit a request, by default of blocks that nobody else has; its number."""
        request, self.asked = self.asked, self.asked + 1
        if blocks is None:
            blocks = tuple(1000 * (request + 1) + n for n in range(-(-prompt // 10)))
        self.driver.post(Submit(request, at, prompt, output, blocks))
        return request

    def run(self, until_ns: int | None = None) -> None:
        """Until nothing is outstanding, or virtual time has come so far."""
        if until_ns is None:
            self.driver.run()
        else:
            self.driver.run(lambda: self.body.now() >= until_ns)

    def said(self, kind: type) -> list[tuple[int, Any]]:
        """(time, action) of every action of a kind."""
        return [
            (now, a) for now, _, actions in self.tape.entries for a in actions if type(a) is kind
        ]

    def tokens(self, request: int) -> list[tuple[int, int]]:
        """(time, tokens) of what `request` was sent."""
        return [(now, a.tokens) for now, a in self.said(Emit) if a.request == request]

    def steps(self) -> list[Step]:
        return [action.operator for _, action in self.said(Run)]

    def sources(self, request: int) -> dict[str, int]:
        """Prompt tokens of `request` by where they came from."""
        [begin] = [a for _, a in self.said(Begin) if a.request == request]
        return {source: tokens for source, tokens in begin.sources if tokens}

    def rejected(self) -> dict[int, str]:
        return {action.request: action.reason for _, action in self.said(Reject)}

    def used(self, tier: str = "hbm") -> int:
        return self.controller.view.used_bytes(tier)


@pytest.fixture(scope="session")
def serve() -> Callable[..., Server]:
    """`serve(hbm=1000, dram=10_000, context=500, max_sequences=..., max_step_tokens=...)`."""

    def build(
        *, hbm: int = 1000, dram: int = 10_000, context: int = 500, **batch_limits: int
    ) -> Server:
        return Server(hbm, dram, context, **batch_limits)

    return build
