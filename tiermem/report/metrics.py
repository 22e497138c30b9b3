"""Folds over one finished run: counts, shares, latencies, traffic and occupancy.

This is the only place where nanoseconds become seconds for a report. It knows the tables of a
run and nothing of how they came about; it writes no file and draws nothing. What each number
means, with its clock, numerator and denominator, is written once, in `DEFINITIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tiermem.units import NS_PER_S

STATES = ("completed", "rejected", "unfinished")
OTHER_SOURCES = ("recompute", "rejected", "not_served")
PERCENTILES = (50, 95, 99)

DEFINITIONS = {
    "requests": "generated = completed + rejected + unfinished; rejected: above the model's"
    " context, or its KV alone exceeds the fastest tier",
    "prompt_tokens_by_source": "every prompt token booked once: to the tier its KV was read from"
    " for that request, else recompute (computed by prefill), rejected (of a rejected request) or"
    " not_served (of a request that never got a prefill)",
    "prompt_token_share_by_source": "prompt_tokens_by_source / all prompt tokens of the trace",
    "hit_share": "prompt tokens whose KV was read from any tier / all prompt tokens of the trace",
    "prefix_hit_blocks": "leading blocks of a request found in any tier, summed over requests",
    "queue_s": "arrival to admission, over requests that were admitted",
    "ttft_s": "arrival to first token, over requests that got a first token",
    "tpot_s": "(last token - first token) / (output tokens - 1), one value per completed request"
    " with at least two output tokens",
    "e2e_s": "arrival to last token, over completed requests",
    "percentiles": "linear interpolation between order statistics (numpy's default), over n values",
    "simulated_s": "first arrival to the end of the run, in simulated time",
    "throughput": "per second of simulated_s: output tokens and requests of completed requests,"
    " prompt tokens of requests that got a prefill",
    "moves": "bytes that went from source to target, by cause",
    "tiers": "high_water_bytes is the most bytes in use at any instant; read_bytes and"
    " written_bytes are sums over moves (a tier's own compute is not in them)",
    "times": "simulated: step times are a roofline estimate with fixed efficiencies",
}


class FinishedRun(Protocol):
    """What this floor needs of a run; `tiermem.scenario.Run` is one."""

    @property
    def policy(self) -> str: ...
    @property
    def tiers(self) -> tuple[str, ...]: ...
    @property
    def capacities(self) -> Mapping[str, int]: ...
    @property
    def tables(self) -> Mapping[str, pd.DataFrame]: ...
    @property
    def counters(self) -> Mapping[str, int]: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def finished_ns(self) -> int: ...


def latency(values_ns: Any, *, absent: str = "no values") -> dict[str, Any]:
    """Mean, p50, p95 and p99 in seconds, and n.

    `values_ns` are nanoseconds (int or float, any order; missing ones are left out and not in n).
    Percentiles interpolate linearly between the two nearest order statistics, as numpy and
    `pandas.Series.quantile` do. With n = 0 the four are None and `reason` says `absent`.
    """
    column = pd.Series(values_ns).dropna()
    values = column.to_numpy(dtype=np.float64)
    if not len(values):
        nothing = dict.fromkeys(("mean", *(f"p{rank}" for rank in PERCENTILES)))
        return {**nothing, "n": 0, "reason": absent}
    ranks = np.percentile(values, PERCENTILES)
    found = {"mean": math.fsum(values) / len(values) / NS_PER_S}
    found |= {f"p{rank}": float(v) / NS_PER_S for rank, v in zip(PERCENTILES, ranks, strict=True)}
    return {**found, "n": len(values)}


def per_request(requests: pd.DataFrame) -> pd.DataFrame:
    """`requests` with queue_s, ttft_s, tpot_s and e2e_s (float64 seconds, NaN where undefined)."""
    spans = _spans_ns(requests)
    seconds = {
        f"{name}_s": span.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan) / NS_PER_S
        for name, span in spans.items()
    }
    return requests.assign(**seconds)


def results(run: FinishedRun) -> dict[str, Any]:
    """One entry of `runs` in results.json: strict JSON, independent of every other run."""
    requests = run.tables["requests"]
    spans = _spans_ns(requests)
    sources = tokens_by_source(requests, run.tiers)
    prompt_tokens = sum(sources.values())
    hit_tokens = sum(sources[tier] for tier in run.tiers)
    shares = {name: _share(tokens, prompt_tokens) for name, tokens in sources.items()}
    found = {
        "policy": run.policy,
        "requests": counts(requests),
        "prompt_tokens": prompt_tokens,
        "prompt_tokens_by_source": sources,
        "prompt_token_share_by_source": shares,
        "hit_share": _share(hit_tokens, prompt_tokens),
        "prefix_hit_blocks": int(requests["prefix_hit_blocks"].sum()),
        "ttft_s": latency(spans["ttft"], absent="no request got a first token"),
        "tpot_s": latency(
            spans["tpot"], absent="no completed request has two output tokens or more"
        ),
        "queue_s": latency(spans["queue"], absent="no request was admitted"),
        "e2e_s": latency(spans["e2e"], absent="no request was completed"),
        "simulated_s": run.finished_ns / NS_PER_S,
        "throughput": _throughput(requests, run, sources),
        "tiers": tiers(run),
        "moves": moved(run.tables["moves"]),
        "counters": {name: int(run.counters[name]) for name in sorted(run.counters)},
        "warnings": list(run.warnings),
    }
    if not prompt_tokens:
        found["reason"] = "the trace has no prompt tokens, so shares are undefined"
    return found


def counts(requests: pd.DataFrame) -> dict[str, int]:
    """generated, completed, rejected and unfinished; the last three sum to the first."""
    by_state = requests["state"].value_counts()
    found = {state: int(by_state.get(state, 0)) for state in STATES}
    assert sum(found.values()) == len(requests), f"unknown states in {list(by_state.index)}"
    return {"generated": len(requests), **found}


def tokens_by_source(requests: pd.DataFrame, tier_names: Sequence[str]) -> dict[str, int]:
    """Prompt tokens per source, every source named; they sum to all prompt tokens."""
    columns = [f"tokens_{name}" for name in (*tier_names, *OTHER_SOURCES)]
    booked = requests[columns].sum(axis=1)
    assert bool((booked == requests["prompt_tokens"]).all()), "a prompt token has no one source"
    return {column.removeprefix("tokens_"): int(requests[column].sum()) for column in columns}


def moved(moves: pd.DataFrame) -> list[dict[str, Any]]:
    """Moves, blocks and bytes by cause, source and target, in that sorted order."""
    keys = ["cause", "source", "target"]
    sums = moves.groupby(keys, sort=True, observed=True).agg(
        moves=("bytes", "size"), blocks=("blocks", "sum"), bytes=("bytes", "sum")
    )
    return [
        dict(zip(keys, map(str, key), strict=True))
        | {str(name): int(value) for name, value in row.items()}
        for key, row in zip(sums.index, sums.to_dict("records"), strict=True)
    ]


def tiers(run: FinishedRun) -> dict[str, dict[str, Any]]:
    """Capacity, high-water mark and traffic of each tier, fastest first."""
    occupancy, moves = run.tables["occupancy"], run.tables["moves"]
    read = moves.groupby("source", observed=True)["bytes"].sum()
    written = moves.groupby("target", observed=True)["bytes"].sum()
    found: dict[str, dict[str, Any]] = {}
    for tier in run.tiers:
        capacity = int(run.capacities[tier])
        high = int(occupancy[tier].max()) if len(occupancy) else 0
        assert 0 <= high <= capacity, f"{tier} held {high} bytes, its capacity is {capacity}"
        found[tier] = {
            "capacity_bytes": capacity,
            "high_water_bytes": high,
            "high_water_share": _share(high, capacity),
            "read_bytes": int(read.get(tier, 0)),
            "written_bytes": int(written.get(tier, 0)),
        }
    return found


def _spans_ns(requests: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """queue, ttft, tpot and e2e of each request in nanoseconds, <NA> where undefined."""
    arrival, first, last = (requests[f"{n}_ns"] for n in ("arrival", "first_token", "last_token"))
    completed = requests["state"] == "completed"
    gaps = requests["output_tokens"] - 1
    return {
        "queue": requests["admitted_ns"] - arrival,
        "ttft": first - arrival,
        "tpot": ((last - first) / gaps.where(gaps > 0)).where(completed),
        "e2e": (last - arrival).where(completed),
    }


def _throughput(
    requests: pd.DataFrame, run: FinishedRun, sources: Mapping[str, int]
) -> dict[str, Any]:
    completed = requests["state"] == "completed"
    served = sum(sources[name] for name in (*run.tiers, "recompute"))
    amounts = {
        "requests_per_s": int(completed.sum()),
        "output_tokens_per_s": int(requests.loc[completed, "output_tokens"].sum()),
        "prompt_tokens_per_s": served,
    }
    if run.finished_ns <= 0:
        return {**dict.fromkeys(amounts), "reason": "no simulated time passed"}
    return {name: amount * NS_PER_S / run.finished_ns for name, amount in amounts.items()}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
