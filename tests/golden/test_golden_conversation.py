"""Golden run: the recorded 40 minutes of conversations, four GPUs, four tiers, an 8B model, LRU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiermem.models import presets
from tiermem.scenario import Run, Scenario, simulate
from tiermem.traces import mooncake

NAME = "mooncake/conversation_trace.first40min.jsonl.gz"
REQUESTS, PROMPT_TOKENS = 7_851, 97_571_920
SOURCES = ("hbm", "dram", "cxl", "nvme", "recompute", "rejected", "not_served")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(shared: Path) -> Run:
    """The whole trace, played once."""
    trace = mooncake.read(shared / "traces" / NAME)
    system = presets.system("h100x4-ddr5-cxl-nvme")
    return simulate(Scenario(trace, system, presets.llm("llama-3.1-8b"), "lru"))


def test_all_requests_are_accounted_for(run: Run) -> None:
    """INV-11: 7,851 in; every one completed or rejected, each rejection named."""
    states = run.tables["requests"]["state"].value_counts().to_dict()
    assert sum(states.values()) == REQUESTS
    assert set(states) <= {"completed", "rejected"}
    assert ("rejected" in states) is bool(run.warnings)


def test_all_tokens_are_accounted_for(run: Run) -> None:
    """97,571,920 prompt tokens, by source, in total and in every row."""
    rows = run.tables["requests"]
    columns = [f"tokens_{source}" for source in SOURCES]
    assert {name for name in rows.columns if name.startswith("tokens_")} == set(columns)
    assert int(rows[columns].to_numpy().sum()) == PROMPT_TOKENS
    assert (rows[columns].sum(axis=1) == rows["prompt_tokens"]).all()


def test_hits_stay_below_the_ceiling(run: Run, reference_values: Any) -> None:
    """No run hits more blocks than an infinite cache, and this one comes near it: its tiers are
    large, and what it misses was still being computed, or cheaper to compute again."""
    found = int(run.tables["requests"]["prefix_hit_blocks"].sum())
    most = reference_values[NAME]["max_hits"]
    assert 0.8 * most < found <= most


def test_no_tier_is_overfull(run: Run) -> None:
    """INV-1 at every instant of the forty minutes."""
    occupancy = run.tables["occupancy"]
    for tier in run.tiers:
        assert occupancy[tier].between(0, run.capacities[tier]).all()
