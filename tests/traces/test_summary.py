"""What `tiermem trace info` reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.traces import mooncake
from tiermem.traces.summary import summarise
from tiermem.traces.trace import Trace

Make = Callable[..., Trace]
Rows = list[dict[str, Any]]


def test_counts_by_hand(make: Make, rows: Rows) -> None:
    """The five requests: a, b, t1 | a, c | a, b, d, t2 | a, b, t1 | nothing."""
    summary = summarise(make(rows, synthetic=True))
    expected = {
        "synthetic": True,
        "requests": 5,
        "references": 12,
        "unique_blocks": 6,
        "block_tokens": 10,
        "largest_request_blocks": 4,
        "duration_s": 8.001,
        "arrival_rate_per_s": 4 / 8.001,
        "tied_arrivals": {"requests": 2, "share": 0.4, "distinct_times": 4},
        "reuse": {
            "compulsory_misses": 6,
            "block_hits_max": 6,
            "prefix_hits_max": 6,
            "hit_ratio_max": 0.5,
            "fully_hit_requests": 1,
        },
    }
    assert {key: summary[key] for key in expected} == expected
    assert summary["prompt_tokens"] == {
        "total": 117,
        "mean": 23.4,
        "min": 9,
        "p50": 25,
        "p95": 38,
        "p99": 38,
        "max": 38,
        "n": 5,
    }


def test_prefix_hits_end_at_the_first_miss(make: Make, row: Callable[..., Any]) -> None:
    """With ids of contents, a hit behind a miss is a block hit and no prefix hit."""
    reuse = summarise(make([row(0, 30, [1, 2, 3]), row(5, 30, [1, 9, 3]), row(6, 20, [9, 1])]))[
        "reuse"
    ]
    assert reuse["block_hits_max"] == 4
    assert reuse["prefix_hits_max"] == 3
    assert reuse["fully_hit_requests"] == 1


def test_what_is_undefined_is_null_with_a_reason(make: Make, row: Callable[..., Any]) -> None:
    """No ids, no reuse; one instant, no rate: null and a reason, never 0 or infinity."""
    summary = summarise(make([row(3, 9, []), row(3, 5, [])]))
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert summary["arrival_rate_per_s"] is None
    assert "same instant" in summary["arrival_rate_per_s_reason"]
    assert summary["reuse"]["hit_ratio_max"] is None
    assert "no reuse information" in summary["reuse"]["hit_ratio_max_reason"]


@pytest.mark.parametrize(
    ("name", "fully_hit"), [("conversation_trace.first40min", 56), ("synthetic_trace", 213)]
)
def test_recorded_files(
    shared: Path, reference_values: dict[str, Any], name: str, fully_hit: int
) -> None:
    """The ceiling of the recorded files is the one that was counted independently."""
    file = f"mooncake/{name}.jsonl.gz"
    expected = reference_values[file]
    reuse = summarise(mooncake.read(shared / "traces" / file))["reuse"]
    assert reuse["compulsory_misses"] == expected["compulsory_misses"]
    assert reuse["block_hits_max"] == reuse["prefix_hits_max"] == expected["max_hits"]
    assert reuse["hit_ratio_max"] == pytest.approx(expected["max_hit_ratio"], abs=5e-7)
    assert reuse["fully_hit_requests"] == fully_hit


def test_the_ticks_of_a_recorded_file(shared: Path) -> None:
    """The conversation file has 800 distinct times for 7,851 requests, all of them shared."""
    trace = mooncake.read(shared / "traces/mooncake/conversation_trace.first40min.jsonl.gz")
    assert summarise(trace)["tied_arrivals"] == {
        "requests": 7851,
        "share": 1.0,
        "distinct_times": 800,
    }
