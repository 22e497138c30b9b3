"""A toy machine and model of round numbers, small traces for it, and one real pressed load.

The toy model: 2 layers, hidden 64, 4 heads of 16 over 2 KV heads, feed-forward 128 gated,
vocabulary 100; so a token adds 2 x 2 x 2 x 16 x 2 = 256 bytes to the cache. Blocks are of 100
tokens, 25,600 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiermem.models import presets
from tiermem.models.link import Link
from tiermem.models.llm import LLM
from tiermem.models.presets import EngineRoom, System
from tiermem.models.roofline import Roofline
from tiermem.models.tier import Compute, Tier
from tiermem.models.topology import Topology
from tiermem.scenario import Run, Scenario, simulate
from tiermem.traces.chat import chat
from tiermem.traces.log import Tape
from tiermem.traces.trace import Trace, intern

GPU = Compute(1e12, 1e11, 1, 0.5, 0.25, 0.8, 1000, 1.0)
TOY = LLM("toy", 2, 64, 4, 2, 16, vocab=100, ffn=128, max_context_tokens=8192, kernels_per_layer=2)
BLOCK_TOKENS = 100
BLOCK_BYTES = 25_600
Request = tuple[float, list[str], int, int]


class Toy:
    """The machine, with its closed forms and a way to run a load on it."""

    llm, gpu, block_bytes = TOY, GPU, BLOCK_BYTES
    cost = Roofline(TOY, GPU)

    def system(self, hbm_blocks: int, *, drive_bytes_per_s: float = 1e9, **below: int) -> System:
        """HBM of so many blocks, and tiers `dram=`, `nvme=` of so many blocks below it."""
        tiers = [Tier("hbm", "hbm", 10**12, 1e12, 1e12, 0, GPU)]
        rates = {"dram": 1e10, "nvme": drive_bytes_per_s}
        for name, blocks in below.items():
            size, rate = blocks * BLOCK_BYTES, rates[name]
            tiers.append(Tier(name, name, size, rate, rate, 5_000))  # type: ignore[arg-type]
        links = [Link(f"to {tier.name}", (tier.name, "host"), 2e10, True, 1000) for tier in tiers]
        room = EngineRoom(0.9, hbm_blocks, BLOCK_TOKENS)
        return System("toy", Topology(tuple(tiers), tuple(links) if below else ()), room, ())

    def load(self, *requests: Request) -> Trace:
        """A trace of (arrival in s, names of the blocks, prompt tokens, output tokens)."""
        counts = [len(request[1]) for request in requests]
        return Trace(
            name="toy",
            block_tokens=BLOCK_TOKENS,
            arrival_ns=np.array([round(request[0] * 1e9) for request in requests]),
            prompt_tokens=np.array([request[2] for request in requests]),
            output_tokens=np.array([request[3] for request in requests]),
            block_ids=intern([name for request in requests for name in request[1]]),
            block_offsets=np.array([0, *np.cumsum(counts)]),
            synthetic=True,
        )

    def names(self, letter: str, count: int) -> list[str]:
        return [f"{letter}{number}" for number in range(count)]

    def run(self, system: System, policy: str, *requests: Request, **limits: int) -> Run:
        return simulate(Scenario(self.load(*requests), system, TOY, policy, **limits))

    def ttft_ns(self, run: Run, request: int) -> int:
        row = run.tables["requests"].iloc[request]
        return int(row["first_token_ns"] - row["arrival_ns"])

    def sources(self, run: Run, request: int) -> dict[str, int]:
        """Prompt tokens by source, those that are zero left out."""
        row = run.tables["requests"].iloc[request]
        columns = [name for name in row.index if name.startswith("tokens_")]
        return {name.removeprefix("tokens_"): int(row[name]) for name in columns if row[name]}


@pytest.fixture(scope="session")
def toy() -> Toy:
    """The toy machine."""
    return Toy()


@pytest.fixture(scope="session")
def pressed() -> Callable[..., Scenario]:
    """`pressed(policy="lru", **capacities)`: a generated chat load on four tiers that are all too
    small for it, with an 8B model. A block is 512 tokens, 64 MiB."""
    trace, llm = chat(requests=300, seed=5), presets.llm("llama-3.1-8b")
    mib = 2**20

    def build(policy: str = "lru", **capacities: int) -> Scenario:
        sizes = {"dram": 6_400 * mib, "cxl": 6_400 * mib, "nvme": 12_800 * mib} | capacities
        system = presets.system(
            "h100-ddr5-cxl-nvme", capacities=sizes, kv_blocks=400, kv_block_tokens=512
        )
        return Scenario(trace, system, llm, policy)

    return build


@pytest.fixture(scope="session")
def played(pressed: Callable[..., Scenario]) -> tuple[Scenario, Run, Tape]:
    """That load under LRU, played once, with everything that was said."""
    scenario, tape = pressed(), Tape()
    return scenario, simulate(scenario, taps=(tape,)), tape


@pytest.fixture(scope="session")
def stretched() -> Callable[[Trace], Any]:
    """A trace whose requests never overlap, in whole blocks, each answered with one token."""

    def apart(trace: Trace) -> Trace:
        counts = np.diff(trace.block_offsets)
        return Trace(
            name=trace.name,
            block_tokens=trace.block_tokens,
            arrival_ns=np.arange(len(trace), dtype=np.int64) * 10**12,
            prompt_tokens=counts * trace.block_tokens,
            output_tokens=np.ones(len(trace), dtype=np.int64),
            block_ids=trace.block_ids,
            block_offsets=trace.block_offsets,
            synthetic=trace.synthetic,
        )

    return apart
