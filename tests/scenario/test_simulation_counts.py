"""The simulator is tied to exact counts: one tier of N blocks, no overlap, the hits of `hits` at N.

Prompts are rounded up to whole blocks and answers are one token long, so that a request takes its
blocks and nothing else. Why FIFO is not among them: see `tests/core/test_controller_counts.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem import hits
from tiermem.models import presets
from tiermem.models.presets import EngineRoom, System
from tiermem.models.topology import Topology
from tiermem.scenario import Scenario, simulate
from tiermem.traces import mooncake
from tiermem.traces.chat import chat
from tiermem.traces.trace import Trace

Apart = Callable[[Trace], Trace]
TIMES = np.array([1, 2.5, 20, 40])  # the largest request


def simulated(trace: Trace, blocks: int, policy: str) -> Any:
    """The requests of a run on the one tier of system `h100`, with room for so many blocks."""
    system = presets.system("h100", kv_blocks=blocks, kv_block_tokens=trace.block_tokens)
    hbm = dataclasses.replace(system.topology.tiers[0], capacity_bytes=10**16)
    roomy = dataclasses.replace(system, topology=Topology((hbm,), ()))
    llm = dataclasses.replace(presets.llm("llama-3.1-8b"), max_context_tokens=10**6)
    rows = simulate(Scenario(trace, roomy, llm, policy)).tables["requests"]
    assert (rows["state"] == "completed").all()
    apart = rows["arrival_ns"].iloc[1:].to_numpy() > rows["last_token_ns"].iloc[:-1].to_numpy()
    assert apart.all(), "requests overlap"
    return rows


def agree(trace: Trace, order: str) -> list[int]:
    """Compare at four capacities; the prefix hits found."""
    found = []
    for blocks in (trace.largest_request_blocks * TIMES).astype(int).tolist():
        (row,) = hits.count(trace, ["lru"], [blocks], order)
        rows = simulated(trace, blocks, f"lru:order={order}")
        assert int(rows["prefix_hit_blocks"].sum()) == row.prefix_hits, blocks
        found.append(row.prefix_hits)
    return found


@pytest.mark.parametrize("order", hits.ORDERS)
def test_generated_chat(stretched: Apart, order: str) -> None:
    """A generated load: the same prefix hits at every capacity, and more at larger ones."""
    found = agree(stretched(chat(requests=250, seed=7)), order)
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("order", hits.ORDERS)
def test_recorded_conversations(stretched: Apart, shared: Path, order: str) -> None:
    """The first 400 requests of the recorded conversations."""
    path = shared / "traces" / "mooncake" / "conversation_trace.first40min.jsonl.gz"
    found = agree(stretched(mooncake.read(path).head(400)), order)
    assert found[0] < found[-1]


def test_tokens_are_blocks(stretched: Apart) -> None:
    """Hit blocks in tokens, request by request: all of a block's but the prompt's last token."""
    trace = stretched(chat(requests=100, seed=7))
    rows = simulated(trace, trace.unique_blocks, "lru")
    tokens = rows["prefix_hit_blocks"] * trace.block_tokens
    whole = tokens == rows["prompt_tokens"]
    assert (rows["tokens_hbm"] == tokens - whole).all()


@pytest.mark.parametrize("order", hits.ORDERS)
def test_a_machine_made_by_hand(toy: Any, stretched: Apart, order: str) -> None:
    """The tie is the core's, not the preset's: a toy machine and tiny chains, at N = 3 and 4.

    Requests "abc", "abd", "x", "abc" by hand, room for 4. Reverse: a and b are the last to go, so
    d, c, x fill the rest: hits 0, 2, 0, 2 (x took c's place). Forward: after abd the order is
    c a b d; x takes the place of c, and the last abc finds a and b.
    """
    chains = [["a", "b", "c"], ["a", "b", "d"], ["x"], ["a", "b", "c"]]
    load = [(n, chain, 100 * len(chain), 1) for n, chain in enumerate(chains)]
    trace = stretched(toy.load(*load))
    for blocks in (3, 4):
        room = EngineRoom(0.9, blocks, 100)
        system = System("one", Topology(toy.system(1).topology.tiers, ()), room, ())
        rows = simulate(Scenario(trace, system, toy.llm, f"lru:order={order}")).tables["requests"]
        (row,) = hits.count(trace, ["lru"], [blocks], order)
        assert int(rows["prefix_hit_blocks"].sum()) == row.prefix_hits
        if blocks == 4:
            assert rows["prefix_hit_blocks"].tolist() == [0, 2, 0, 2]
