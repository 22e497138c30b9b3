"""The simulator is tied to the exact counts: one tier, no overlap, the same prefix hits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tiermem import hits
from tiermem.models import presets
from tiermem.scenario import Scenario, simulate
from tiermem.traces.catalog import open_trace

TRACES = [
    "synthetic-chat",
    "mooncake/conversation_trace.first40min.jsonl.gz",
    "mooncake/synthetic_trace.jsonl.gz",
]


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("capacity", [500, 5000])
def test_the_simulator_counts_what_hits_counts(
    name: str, order: str, capacity: int, request: pytest.FixtureRequest
) -> None:
    """With arrivals stretched until nothing overlaps, and one tier of N blocks: `hits` at N.

    Each request comes ten thousand seconds after the one before. As in the counts, every block is
    a whole one and no answer takes room. N is at least the largest request, since the core leases
    whole requests.
    """
    recorded = "/" in name
    path = request.getfixturevalue("shared") / "traces" / name if recorded else name
    trace = open_trace(path)
    assert capacity >= trace.largest_request_blocks
    apart = dataclasses.replace(
        trace,
        arrival_ns=np.arange(len(trace)) * 10**13,
        prompt_tokens=np.diff(trace.block_offsets) * trace.block_tokens,
        output_tokens=np.ones(len(trace), dtype=np.int64),
        digest="",
    )
    system = presets.system(
        "h100", kv_blocks=capacity, kv_block_tokens=512, capacities={"hbm": 10**16}
    )
    llm = dataclasses.replace(presets.llm("llama-3.1-8b"), max_context_tokens=10**6)
    run = simulate(Scenario(apart, system, llm, f"lru:order={order}"))
    (row,) = hits.count(apart, ["lru"], [capacity], order)
    assert int(run.tables["requests"]["prefix_hit_blocks"].sum()) == row.prefix_hits
