"""What the requests of several runs say together: is a difference noise, and did they queue up.

Runs of one comparison saw the same requests, so they are compared request by request. It reads
the requests tables; it names no winner in words, writes no file and knows nothing of hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tiermem import seeds
from tiermem.report.metrics import FinishedRun, latency
from tiermem.units import NS_PER_S

STRETCHES = 30
DRAWS = 1000
CONFIDENCE = 0.95
# A smaller margin is not worth having, however surely it is there.
LEAST_MARGIN = 0.01

METHOD = (
    "difference of mean TTFT to the policy with the lowest, over requests that got a first token"
    f" under both; {CONFIDENCE:.0%} percentile interval of {DRAWS:,} block bootstrap draws, about"
    f" {STRETCHES} wrapped stretches of neighbouring arrivals each"
)

# There is a backlog when the last admission comes this share of the trace's duration, and the time
# a median request takes once admitted, after the last arrival. (A last answer may just be long.)
_LATE_SHARE = 0.05
# Waits grow when those of the last quarter of the requests are this many times the first one's,
# and long enough to matter.
GROWTH = 3
_LEAST_WAIT_S = 1.0


def weigh(runs: Sequence[FinishedRun], seed: int) -> dict[str, Any]:
    """What verdict.json holds: `mean_ttft`, the comparison to the lowest, and who queued up.

    `mean_ttft` is None with fewer than two policies that have a TTFT. The others stand in rising
    order of their mean, each with `difference_s`, `low_s`, `high_s` (None with fewer than two
    common requests) and `beyond_noise`. `backlog` and `growing_waits` name
    policies.
    """
    requests = {run.policy: run.tables["requests"] for run in runs}
    return {
        "mean_ttft": _against_lowest(runs, seed),
        "backlog": [name for name, table in requests.items() if has_backlog(table)],
        "growing_waits": [name for name, table in requests.items() if waits_grow(table)],
    }


def interval(differences: np.ndarray, seed: int) -> tuple[float, float] | None:
    """A 95 % interval of the mean of `differences`, which are neighbours in arrival order.

    Requests that arrive together wait together, so whole stretches are drawn, not requests
    (circular block bootstrap, Politis and Romano 1992). None with fewer than two values.
    """
    count = len(differences)
    if count < 2:
        return None
    length = -(-count // STRETCHES)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([differences, differences[:length]]))])
    stretch = sums[length : length + count] - sums[:count]
    stretches = -(-count // length)
    starts = seeds.stream(seed, "verdict").integers(0, count, (DRAWS, stretches))
    means = stretch[starts].sum(axis=1) / (stretches * length)
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [outside, 1 - outside])
    return float(low), float(high)


def has_backlog(requests: pd.DataFrame) -> bool:
    """Whether requests of one run were still waiting long after the last one had arrived."""
    admitted = requests[requests["admitted_ns"].notna()]
    service = (admitted["last_token_ns"] - admitted["admitted_ns"]).dropna()
    if not len(service):
        return False
    last = int(admitted["arrival_ns"].max())
    duration = last - int(admitted["arrival_ns"].min())
    late = int(admitted["admitted_ns"].max()) - last
    return bool(late > _LATE_SHARE * duration + float(service.median()))


def waits_grow(requests: pd.DataFrame) -> bool:
    """Whether the last quarter of one run's requests waited far longer than the first quarter."""
    admitted = requests[requests["admitted_ns"].notna()]
    ordered = admitted.sort_values("arrival_ns", kind="stable")
    wait = (ordered["admitted_ns"] - ordered["arrival_ns"]).to_numpy(dtype=float) / NS_PER_S
    quarter = len(wait) // 4
    if not quarter:
        return False
    early, late = float(wait[:quarter].mean()), float(wait[-quarter:].mean())
    return late > _LEAST_WAIT_S and late > GROWTH * early


def _against_lowest(runs: Sequence[FinishedRun], seed: int) -> dict[str, Any] | None:
    times = {run.policy: _ttft_ns(run.tables["requests"]) for run in runs}
    means = {name: latency(values)["mean"] for name, values in times.items()}
    ranked = sorted((name for name in means if means[name] is not None), key=lambda n: means[n])
    if len(ranked) < 2:
        return None
    lowest = ranked[0]
    against = []
    for name in ranked[1:]:
        pairs = (times[name] - times[lowest]).dropna().to_numpy(dtype=float) / NS_PER_S
        span = interval(pairs, seed)
        low, high = span if span is not None else (None, None)
        margin = means[name] / means[lowest] - 1 if means[lowest] else float("inf")
        against.append(
            {
                "policy": name,
                "difference_s": float(pairs.mean()) if len(pairs) else None,
                "low_s": low,
                "high_s": high,
                "pairs": len(pairs),
                "beyond_noise": low is not None and low > 0 and margin >= LEAST_MARGIN,
            }
        )
    return {"lowest": lowest, "against": against, "method": METHOD}


def _ttft_ns(requests: pd.DataFrame) -> pd.Series[Any]:
    """TTFT by request in arrival order, <NA> where there was no first token."""
    ordered = requests.sort_values(["arrival_ns", "request"], kind="stable")
    spans = ordered["first_token_ns"] - ordered["arrival_ns"]
    return pd.Series(spans.to_numpy(), index=ordered["request"].to_numpy(), dtype="Float64")
