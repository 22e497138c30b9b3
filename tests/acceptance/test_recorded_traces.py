"""The recorded traces: exact counts by the command line, and a simulation that loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiermem.cli import main
from tiermem.models import presets
from tiermem.scenario import Run, Scenario, simulate
from tiermem.traces import mooncake
from tiermem.traces.trace import Trace

CONVERSATION = "mooncake/conversation_trace.first40min.jsonl.gz"
SYNTHETIC = "mooncake/synthetic_trace.jsonl.gz"
REQUESTS, PROMPT_TOKENS = 7_851, 97_571_920
GIB = 2**30


@pytest.fixture(scope="module")
def conversation(shared: Path) -> Trace:
    """Forty minutes of the conversation trace."""
    return mooncake.read(shared / "traces" / CONVERSATION)


@pytest.mark.parametrize("name", [CONVERSATION, SYNTHETIC])
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_hits_gives_the_reference_values(
    name: str,
    order: str,
    shared: Path,
    reference_values: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`tiermem hits FILE --policy lru --order ORDER --json` is exact at every capacity."""
    wanted = reference_values[name]["lru"][order]
    words = ["--policy", "lru,infinite", "--capacity", ",".join(wanted), "--order", order, "--json"]
    assert main(["hits", str(shared / "traces" / name), *words]) == 0
    *counted, infinite = json.loads(capsys.readouterr().out)["rows"]
    assert {
        str(row["capacity_blocks"]): (row["block_hits"], row["prefix_hits"]) for row in counted
    } == {capacity: (row["block_hits"], row["prefix_hits"]) for capacity, row in wanted.items()}
    assert infinite["capacity_blocks"] is None
    assert infinite["prefix_hits"] == reference_values[name]["max_hits"]


@pytest.fixture(scope="module")
def played(conversation: Trace) -> Run:
    """The whole conversation trace on four tiers."""
    system = presets.system("h100x4-ddr5-cxl-nvme")
    return simulate(Scenario(conversation, system, presets.llm("llama-3.1-8b")))


def test_every_request_and_token_is_accounted_for(played: Run) -> None:
    """7,851 requests in, 7,851 accounted for; the sources sum to 97,571,920 tokens."""
    requests = played.tables["requests"]
    assert len(requests) == REQUESTS
    assert set(requests["state"]) <= {"completed", "rejected", "unfinished"}
    assert (requests["state"] == "unfinished").sum() == 0
    sources = [column for column in requests if column.startswith("tokens_")]
    assert {"tokens_hbm", "tokens_dram", "tokens_cxl", "tokens_nvme"} < set(sources)
    assert requests[sources].to_numpy().sum() == PROMPT_TOKENS
    # Booked once: the sources of each request are its own prompt, no more and no less.
    assert (requests[sources].sum(axis=1) == requests["prompt_tokens"]).all()
    assert (requests[sources] >= 0).all(axis=None)


def test_no_tier_ever_holds_more_than_it_can(played: Run) -> None:
    """Bytes in a tier never exceed its capacity at any instant, and never fall below zero."""
    occupancy = played.tables["occupancy"]
    assert occupancy["time_ns"].is_monotonic_increasing
    for tier in played.tiers:
        assert occupancy[tier].min() >= 0
        assert 0 < occupancy[tier].max() <= played.capacities[tier]


def test_bytes_balance(played: Run) -> None:
    """What was fetched is what the requests were served from below, in whole tokens."""
    moves, requests = played.tables["moves"], played.tables["requests"]
    assert (moves["end_ns"] > moves["start_ns"]).all()
    token_bytes = presets.llm(played.llm).kv_bytes_per_token
    fetched = moves[moves["cause"] == "fetch"].groupby("source")["bytes"].sum()
    for tier in played.tiers[1:]:
        # The last prompt token is computed again even where its block was fetched.
        served = int(requests[f"tokens_{tier}"].sum()) * token_bytes
        assert served <= fetched[tier] <= served + REQUESTS * token_bytes


def test_a_larger_tier_changes_hits_and_latency(conversation: Trace) -> None:
    """Fault B29: when a lower tier grows and hits change, TTFT changes."""
    head, llm = conversation.head(2000), presets.llm("llama-3.1-8b")
    hits, means = [], []
    for dram in (GIB, 400 * GIB):
        capacities = {"dram": dram, "cxl": GIB, "nvme": GIB}
        system = presets.system("h100x4-ddr5-cxl-nvme", capacities=capacities)
        requests = simulate(Scenario(head, system, llm)).tables["requests"]
        hits.append(int(requests["prefix_hit_blocks"].sum()))
        means.append(float((requests["first_token_ns"] - requests["arrival_ns"]).mean()))
    assert hits[1] > hits[0]
    assert means[1] < means[0]
