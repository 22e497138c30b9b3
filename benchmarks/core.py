"""Block references per second through the placement core itself, at one tier and at four.

    python benchmarks/core.py [--trace TRACE] [--repeat N]

Each request of a trace is an Acquire, a Commit and a Release of all its blocks; every Move is
answered at once. There is no clock, no engine and no log. Beside it stands a bare LRU loop over the
same references, which tells a slow core from a slow machine. Without a recorded trace a generated
(synthetic) chat trace is used.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict, deque
from itertools import count
from pathlib import Path
from typing import Any

from measure import CONVERSATION, judged, print_table, spread, timed

from tiermem.core.controller import Controller
from tiermem.core.messages import Acquire, Action, Commit, Done, Move, Release
from tiermem.models.presets import system
from tiermem.models.topology import Topology
from tiermem.scenario import make_policy
from tiermem.traces.catalog import open_trace
from tiermem.traces.synthetic import chat
from tiermem.traces.trace import Trace

BLOCK_BYTES = 512 * 131_072
BLOCKS = {"hbm": 2000, "dram": 4000, "cxl": 8000, "nvme": 16_000}
ONE_TIER_BLOCKS = 10_000


def one_tier() -> tuple[Topology, dict[str, int]]:
    """HBM alone."""
    hbm = system("h100x4-ddr5-cxl-nvme").topology.tiers[0]
    return Topology((hbm,)), {"hbm": ONE_TIER_BLOCKS * BLOCK_BYTES}


def four_tiers() -> tuple[Topology, dict[str, int]]:
    """The whole machine, with room for `BLOCKS`."""
    topology = system("h100x4-ddr5-cxl-nvme").topology
    return topology, {tier: blocks * BLOCK_BYTES for tier, blocks in BLOCKS.items()}


def replay(chains: list[tuple[int, ...]], topology: Topology, sizes: dict[str, int]) -> Any:
    """Take every chain through a new controller; the blocks hit, and moved, by cause."""
    controller = Controller(topology, sizes, make_policy("lru", sizes))
    on, counts = controller.on, {"hit": 0, "fetch": 0, "demote": 0}
    pending: deque[Action] = deque()
    for lease, now, chain in zip(count(), count(), chains, strict=False):
        pending.extend(on(Acquire(lease, chain, (BLOCK_BYTES,) * len(chain), "hbm"), now))
        while pending:
            action = pending.popleft()
            if type(action) is Move:
                counts[action.cause] += len(action.blocks)
                pending.extend(on(Done(action.id), now))
        counts["hit"] += sum(blocks for _, blocks in controller.leases[lease].hits)
        on(Commit(lease), now)
        on(Release(lease), now)
    return counts


def bare(chains: list[tuple[int, ...]]) -> dict[str, int]:
    """LRU and nothing else: the blocks hit with as many blocks of room as one tier has."""
    used: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for chain in chains:
        for block in reversed(chain):
            if block in used:
                hits += 1
                used.move_to_end(block)
                continue
            if len(used) == ONE_TIER_BLOCKS:
                used.popitem(last=False)
            used[block] = None
    return {"hit": hits}


def chains_of(trace: Trace) -> list[tuple[int, ...]]:
    """The blocks of each request, each named once and no more of them than the tier can hold."""
    chains = (tuple(dict.fromkeys(trace.blocks_of(i).tolist())) for i in range(len(trace)))
    return [chain[: BLOCKS["hbm"]] for chain in chains]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", default=str(CONVERSATION))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if options.trace != str(CONVERSATION) or Path(options.trace).is_file():
        trace = open_trace(options.trace)
    else:
        trace = chat(requests=8000, seed=1)
    chains, rows = chains_of(trace), []
    references = sum(map(len, chains))
    for name, call, target in (
        ("one tier", lambda: replay(chains, *one_tier()), 0.4),
        ("four tiers", lambda: replay(chains, *four_tiers()), 0.0),
        ("no core: a bare LRU loop", lambda: bare(chains), 0.0),
    ):
        samples = [timed(call) for _ in range(options.repeat)]
        rates = [references / sample.wall_s / 1e6 for sample in samples]
        on_core = spread(references / sample.core_s / 1e6 for sample in samples)
        told = judged(rates, at_least=target) if target else ("", "")
        moved = ", ".join(f"{cause} {blocks:,}" for cause, blocks in samples[0].result.items())
        rows.append((name, spread(rates), on_core, *told, moved))
    print(f"{trace.name}: {len(trace):,} requests, {references:,} block references, LRU\n")
    print_table(("core with", "M references/s", "of a core", "target", "", "blocks"), rows)


if __name__ == "__main__":
    main()
