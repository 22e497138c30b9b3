"""Folds over a run: every expected number is worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tiermem.report import metrics

S = 1_000_000_000


def strict(value: Any) -> Any:
    """Through a strict JSON writer and back."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_percentiles_are_interpolated_and_the_median_is_the_middle_one() -> None:
    """Fault 132: of 42.8, 42.9 and 425.7 ms the median is 42.9, and n is 3."""
    found = metrics.latency([425_700_000, 42_800_000, 42_900_000])
    assert found["p50"] == pytest.approx(0.0429)
    # Rank 0.95 * 2 = 1.9 lies nine tenths of the way from 42.9 to 425.7.
    assert found["p95"] == pytest.approx(0.0429 + 0.9 * (0.4257 - 0.0429))
    assert found["mean"] == pytest.approx(0.1704667, rel=1e-5)
    assert found["n"] == 3


def test_latency_of_nothing_is_null_with_a_reason() -> None:
    """Fault 131: undefined is null and says why; never NaN."""
    found = strict(metrics.latency(pd.array([None], dtype="Int64"), absent="nobody came"))
    expected = dict.fromkeys(("mean", "p50", "p95", "p99"))
    assert found == {**expected, "n": 0, "reason": "nobody came"}


def test_missing_values_are_not_counted() -> None:
    """n counts the values that the percentiles are of."""
    found = metrics.latency(pd.array([S, None, 3 * S], dtype="Int64"))
    assert (found["n"], found["mean"]) == (2, 2.0)


def test_each_clock_starts_and_stops_where_its_definition_says(small: Callable[..., Any]) -> None:
    """TTFT is arrival to first token, TPOT the mean of the later gaps, queue ends at admission."""
    row = {
        "arrival_ns": S,
        "admitted_ns": 2 * S,
        "first_token_ns": 4 * S,
        "last_token_ns": 10 * S,
        "output_tokens": 4,
        "tokens_recompute": 7,
    }
    found = metrics.results(small([row]))
    means = [found[name]["mean"] for name in ("queue_s", "ttft_s", "tpot_s", "e2e_s")]
    assert means == [1.0, 3.0, 2.0, 9.0]


def test_tpot_needs_two_output_tokens(small: Callable[..., Any]) -> None:
    """A request with one output token has no gap: it is in TTFT and not in TPOT."""
    row = {"first_token_ns": S, "last_token_ns": S, "admitted_ns": 0, "tokens_recompute": 1}
    found = metrics.results(small([row]))
    assert (found["ttft_s"]["n"], found["tpot_s"]["n"]) == (1, 0)
    assert "two output tokens" in found["tpot_s"]["reason"]


def test_every_request_and_every_token_is_booked_once(small: Callable[..., Any]) -> None:
    """Generated = completed + rejected + unfinished, and sources sum to all prompt tokens."""
    rows = [
        {"first_token_ns": S, "last_token_ns": S, "tokens_hbm": 5, "tokens_recompute": 3},
        {"state": "rejected", "tokens_rejected": 100},
        {"state": "unfinished", "tokens_not_served": 20},
        {"first_token_ns": S, "last_token_ns": S, "tokens_nvme": 2, "tokens_recompute": 70},
    ]
    found = metrics.results(small(rows))
    assert found["requests"] == {"generated": 4, "completed": 2, "rejected": 1, "unfinished": 1}
    sources = {"hbm": 5, "nvme": 2, "recompute": 73, "rejected": 100, "not_served": 20}
    assert found["prompt_tokens_by_source"] == sources
    assert found["prompt_tokens"] == 200
    assert found["hit_share"] == 7 / 200
    assert sum(found["prompt_token_share_by_source"].values()) == pytest.approx(1)


def test_a_token_without_a_source_is_a_mistake_of_ours(small: Callable[..., Any]) -> None:
    """A run whose sources do not sum to its prompt tokens is never reported."""
    run = small([{"tokens_recompute": 3}])
    run.tables["requests"]["prompt_tokens"] += 1
    with pytest.raises(AssertionError, match="prompt token"):
        metrics.results(run)


def test_the_same_schema_when_nobody_is_served(small: Callable[..., Any]) -> None:
    """Fault 34: all rejected gives the same keys, zero counts and null latencies."""
    served = {"first_token_ns": S, "last_token_ns": 2 * S, "output_tokens": 2, "admitted_ns": 0}
    full = metrics.results(small([served | {"tokens_recompute": 9}]))
    none = strict(metrics.results(small([{"state": "rejected", "tokens_rejected": 9}])))
    assert list(none) == list(full)
    assert none["requests"]["completed"] == 0
    for name in ("ttft_s", "tpot_s", "queue_s", "e2e_s"):
        assert set(full[name]) <= set(none[name])
        assert (none[name]["mean"], none[name]["n"]) == (None, 0)


def test_rates_are_over_simulated_time_and_null_without_any(small: Callable[..., Any]) -> None:
    """Fault 35: a run of no length has no throughput; null, not infinite."""
    row = {"first_token_ns": S, "last_token_ns": S, "output_tokens": 30, "tokens_hbm": 10}
    rate = metrics.results(small([row], finished_ns=5 * S))["throughput"]
    assert rate == {
        "requests_per_s": 0.2,
        "output_tokens_per_s": 6.0,
        "prompt_tokens_per_s": 2.0,
    }
    nothing = metrics.results(small([row], finished_ns=0))["throughput"]
    assert nothing["requests_per_s"] is None
    assert nothing["reason"] == "no simulated time passed"


def test_bytes_are_summed_by_cause_and_edge(
    small: Callable[..., Any], moves: Callable[..., pd.DataFrame]
) -> None:
    """Bytes that reach a tier by eviction count as written (fault 43), each cause apart."""
    table = moves(
        [
            ("write", "hbm", "nvme", 2, 200),
            ("demote", "hbm", "nvme", 1, 100),
            ("write", "hbm", "nvme", 1, 50),
            ("fetch", "nvme", "hbm", 3, 300),
        ]
    )
    found = metrics.results(small([{"tokens_hbm": 1}], tables={"moves": table}))
    assert [(m["cause"], m["moves"], m["blocks"], m["bytes"]) for m in found["moves"]] == [
        ("demote", 1, 1, 100),
        ("fetch", 1, 3, 300),
        ("write", 2, 3, 250),
    ]
    assert found["tiers"]["nvme"]["written_bytes"] == 350
    assert found["tiers"]["nvme"]["read_bytes"] == 300
    assert found["tiers"]["hbm"]["written_bytes"] == 300


def test_the_high_water_mark_is_the_fullest_instant(small: Callable[..., Any]) -> None:
    """Peak bytes and their share of the capacity; above the capacity is a mistake of ours."""
    used = pd.DataFrame({"time_ns": [0, 5, 9], "hbm": [10, 900, 0], "nvme": [0, 0, 0]})
    run = small([{"tokens_hbm": 1}], tables={"occupancy": used})
    found = metrics.results(run)["tiers"]
    assert found["hbm"]["high_water_bytes"] == 900
    assert found["hbm"]["high_water_share"] == 0.9
    assert found["nvme"]["high_water_bytes"] == 0
    used.loc[1, "hbm"] = 1001
    with pytest.raises(AssertionError, match="hbm held 1001 bytes"):
        metrics.results(run)


def test_results_agree_with_the_frame_they_are_folded_from(large: Callable[..., Any]) -> None:
    """Fault 57: a reader who folds `per_request` himself finds the reported percentiles."""
    run = large("lru")
    found = metrics.results(run)
    frame = metrics.per_request(run.tables["requests"])
    for name in ("ttft_s", "tpot_s", "queue_s", "e2e_s"):
        assert found[name]["n"] == frame[name].count()
        assert found[name]["p99"] == pytest.approx(np.percentile(frame[name].dropna(), 99))
        assert found[name]["mean"] == pytest.approx(frame[name].mean())


def test_each_reported_metric_is_defined(small: Callable[..., Any]) -> None:
    """Every metric with a clock or a denominator has its definition in results.json."""
    found = metrics.results(small([{"tokens_hbm": 1}]))
    plain = {"policy", "prompt_tokens", "counters", "warnings"}
    assert set(found) - plain <= set(metrics.DEFINITIONS)
