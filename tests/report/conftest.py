"""Runs made up for the tests of reports: nothing in them was simulated or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

TIERS = ("hbm", "dram", "cxl", "nvme")
GIB = 2**30


@dataclass(frozen=True)
class MadeUpRun:
    policy: str
    tiers: tuple[str, ...]
    capacities: Mapping[str, int]
    tables: Mapping[str, pd.DataFrame]
    finished_ns: int
    counters: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class MadeUpHits:
    policy: str
    capacity_blocks: int | None
    order: str
    references: int
    block_hits: int
    prefix_hits: int


def requests_table(rows: Sequence[Mapping[str, Any]], tiers: Sequence[str]) -> pd.DataFrame:
    """A requests table from rows that give only what matters; prompt tokens are summed up."""
    sources = [f"tokens_{name}" for name in (*tiers, "recompute", "rejected", "not_served")]
    made = []
    for place, row in enumerate(rows):
        full = {"request": place, "state": "completed", "arrival_ns": 0, "output_tokens": 1}
        full |= {"admitted_ns": None, "first_token_ns": None, "last_token_ns": None}
        full |= {"prefix_hit_blocks": 0, **dict.fromkeys(sources, 0), **row}
        full["prompt_tokens"] = sum(full[source] for source in sources)
        made.append(full)
    frame = pd.DataFrame(made)
    times = ["admitted_ns", "first_token_ns", "last_token_ns"]
    return frame.astype(dict.fromkeys(times, "Int64"))


def moves_table(rows: Sequence[tuple[str, str, str, int, int]] = ()) -> pd.DataFrame:
    names = ["cause", "source", "target", "blocks", "bytes"]
    frame = pd.DataFrame(list(rows), columns=names)
    frame.insert(0, "move", range(len(frame)))
    frame = frame.assign(start_ns=0, end_ns=1)
    numbers = ["move", "blocks", "bytes", "start_ns", "end_ns"]
    return frame.astype(dict.fromkeys(numbers, "int64"))


def small_run(
    rows: Sequence[Mapping[str, Any]],
    *,
    policy: str = "lru",
    tiers: tuple[str, ...] = ("hbm", "nvme"),
    **changes: Any,
) -> MadeUpRun:
    """A run whose requests are `rows`, with empty traffic unless `changes` gives some."""
    occupancy = pd.DataFrame({"time_ns": [0], **{tier: [0] for tier in tiers}}).astype("int64")
    steps = ["start_ns", "end_ns", "steps", "decodes", "prefill_tokens"]
    tables = {
        "requests": requests_table(rows, tiers),
        "moves": moves_table(),
        "occupancy": occupancy,
        "steps": pd.DataFrame({name: [] for name in steps}).astype("int64"),
    } | changes.pop("tables", {})
    settings = {"finished_ns": 10**9, "capacities": dict.fromkeys(tiers, 1000)} | changes
    return MadeUpRun(policy=policy, tiers=tiers, tables=tables, **settings)


def large_run(policy: str, *, reuse: float = 0.3, slow: float = 1.0, count: int = 800) -> MadeUpRun:
    """A run that looks like one, for figures: `reuse` of the tokens hit, TTFT times `slow`."""
    draw = np.random.default_rng(7)
    prompt = draw.integers(500, 20_000, count)
    hit = (prompt * np.clip(draw.normal(reuse, 0.15, count), 0, 0.95)).astype("int64")
    split = draw.dirichlet([4, 3, 1, 2], count)
    parts = (hit[:, None] * split).astype("int64")
    arrival = np.sort(draw.integers(0, 900 * 10**9, count))
    first = arrival + (slow * draw.lognormal(-0.5, 0.9, count) * 1e9).astype("int64")
    output = draw.integers(1, 500, count)
    last = first + (output - 1) * (slow * draw.normal(18e6, 2e6, count)).astype("int64")
    sources = {f"tokens_{tier}": parts[:, place] for place, tier in enumerate(TIERS)}
    requests = pd.DataFrame(
        {
            "request": np.arange(count),
            "state": "completed",
            "arrival_ns": arrival,
            "admitted_ns": pd.array(arrival + 10**6, dtype="Int64"),
            "first_token_ns": pd.array(first, dtype="Int64"),
            "last_token_ns": pd.array(last, dtype="Int64"),
            "prompt_tokens": prompt,
            "output_tokens": output,
            "prefix_hit_blocks": hit // 512,
            **sources,
            "tokens_recompute": prompt - parts.sum(axis=1),
            "tokens_rejected": 0,
            "tokens_not_served": 0,
        }
    )
    capacities = dict(zip(TIERS, (44 * GIB, 512 * GIB, 512 * GIB, 3200 * GIB), strict=True))
    times = np.linspace(0, 900e9, 3000).astype("int64")
    used = {
        tier: (capacities[tier] * np.clip(times / times[-1] * speed, 0, 1)).astype("int64")
        for tier, speed in zip(TIERS, (9, 3, 0.8, 0.3), strict=True)
    }
    moves = moves_table(
        [("demote", "hbm", "dram", 9000, 300 * GIB), ("write", "dram", "nvme", 900, 210 * GIB)]
    )
    steps = {"start_ns": [0], "end_ns": [10], "steps": [1], "decodes": [1], "prefill_tokens": [5]}
    tables = {"requests": requests, "moves": moves, "steps": pd.DataFrame(steps)}
    tables["occupancy"] = pd.DataFrame({"time_ns": times, **used})
    return MadeUpRun(
        policy=policy,
        tiers=TIERS,
        capacities=capacities,
        tables=tables,
        finished_ns=int(last.max()),
        counters={"events": 12_345, "demoted_hbm_blocks": 9000},
    )


def curves(policies: Sequence[str]) -> list[MadeUpHits]:
    """Hit counts that rise with capacity towards a ceiling, each policy at its own speed."""
    pace = {"lru": 900, "fifo": 1500, "s3fifo": 700, "belady": 400, "belady-bypass": 350}
    rows = []
    for policy in dict.fromkeys([*policies, "lru", "belady", "belady-bypass"]):
        for order in ("reverse", "forward") if policy == "lru" else ("reverse",):
            for capacity in (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000):
                speed = pace.get(policy, 1000) * (1.6 if order == "forward" else 1)
                hits = int(4000 * (1 - np.exp(-capacity / speed)))
                prefix = hits if order == "reverse" else int(0.7 * hits)
                rows.append(MadeUpHits(policy, capacity, order, 10_000, hits, prefix))
    rows.append(MadeUpHits("infinite", None, "reverse", 10_000, 4000, 4000))
    return rows


ABOUT = {
    "trace": {
        "name": "made-up",
        "digest": "0" * 64,
        "synthetic": True,
        "block_tokens": 512,
        "requests": 800,
        "prompt_tokens": 8_000_000,
    },
    "system": {"name": "h100x4-ddr5-cxl-nvme"},
    "llm": {"name": "llama-3.1-8b", "kv_bytes_per_token": 131_072},
    "seed": 0,
}


@pytest.fixture
def small() -> Callable[..., MadeUpRun]:
    return small_run


@pytest.fixture
def large() -> Callable[..., MadeUpRun]:
    return large_run


@pytest.fixture
def hit_counts() -> Callable[..., list[MadeUpHits]]:
    return curves


@pytest.fixture
def moves() -> Callable[..., pd.DataFrame]:
    return moves_table


@pytest.fixture
def contents() -> Callable[..., Any]:
    """What goes into a folder, for the given runs."""
    from tiermem.report.folder import Contents

    def make(runs: Sequence[MadeUpRun], **changes: Any) -> Contents:
        names = [run.policy for run in runs]
        values = {"hits": curves(names), "about": ABOUT, "config": {"seed": 0}}
        return Contents(runs=runs, process={"host": "made-up"}, **values | changes)

    return make
