"""The sentences under a comparison: what a reader would otherwise have to notice.

Who wins and by how much, when that is noise, which tiers were never used, when the policies
could not have differed. Made from results.json, verdict.json and the hit counts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tiermem.report.evidence import CONFIDENCE, GROWTH, LEAST_MARGIN
from tiermem.units import format_bytes

# Below this many values the 99th percentile rests on the largest one or two.
FEW = 100
# Above this share, rejections are the first thing to know.
MANY_REJECTED = 0.01
# The smallest size this close to the best one is recommended.
NEAR_BEST = 1.05

ONE_TRACE = (
    "One trace is one realisation: repeat with other traces before you build on a small difference."
)
QUEUE_UP = (
    "Requests queue up: arrivals exceed what this machine serves, so TTFT depends on the length of"
    " the trace."
)
WAITS_GROW = (
    f"Requests queue up towards the end: the last quarter waits over {GROWTH}x as long as the"
    " first, so TTFT depends on the length of the trace."
)

# Counters of blocks that a tier gave up for want of room.
_PRESSED = ("demoted_", "dropped_evict_", "dropped_clean_", "dropped_no_room_")
_REFERENCES = ("infinite", "belady", "belady-bypass")


def remarks(
    results: Mapping[str, Any], hits: pd.DataFrame, verdict: Mapping[str, Any]
) -> list[str]:
    """What a reader must know beside the numbers, most important first."""
    runs = results["runs"]
    idle = _never_filled(runs)
    found = [
        *(f"FAILED: {fail['policy']}: {fail['error']}" for fail in results.get("failed", ())),
        *_rejections(runs),
        *_winner(runs, verdict.get("mean_ttft")),
        *_queues(verdict, len(runs)),
        *idle,
        *_untouched(runs),
        *_few(runs),
        *([] if idle else belady_gap(hits, _first_room_blocks(results))),
        *_warnings(runs),
        *_assumptions(results),
        "Times are simulated (roofline estimate); definitions are in results.json.",
    ]
    if results.get("trace", {}).get("synthetic"):
        found.append("The trace is synthetic: generated from published statistics, not recorded.")
    elif answered := results.get("trace", {}).get("recorded"):
        found.append(f"The trace was recorded: requests that were answered by {answered}.")
    return found


def belady_gap(hits: pd.DataFrame, room_blocks: float | None) -> list[str]:
    """How much of the way from LRU to Belady each other policy covers, with its sign.

    Block hits, tail before head, at the capacity counted that is nearest (as a ratio) to
    `room_blocks`, what the fastest tier holds. Nothing without it or without another policy.
    """
    rows = hits[(hits["order"] == "reverse") & hits["capacity_blocks"].notna()]
    order = [name for name in dict.fromkeys(rows["policy"]) if name not in (*_REFERENCES, "lru")]
    wide = rows.pivot_table(index="capacity_blocks", columns="policy", values="block_hits")
    if not order or not room_blocks or not {"lru", "belady"} <= set(wide.columns):
        return []
    wide = wide.dropna()  # only capacities at which every policy was counted
    if not len(wide):
        return []
    capacities = wide.index.to_numpy(dtype=float)
    place = int(np.abs(np.log(capacities / room_blocks)).argmin())
    capacity, counted = int(capacities[place]), wide.iloc[place]
    gap = float(counted["belady"] - counted["lru"])
    where = f"at {capacity:,} blocks, the capacity counted nearest to the fastest tier"
    if gap <= 0:
        return [f"LRU and Belady have the same block hits {where}: no gap to close."]
    named = [f"{name} {_signed((counted[name] - counted['lru']) / gap)}" for name in order]
    return [
        f"Of the LRU-to-Belady gap in block hits {where} ({gap:,.0f} hits): {', '.join(named)}."
    ]


def size_advice(sweep: pd.DataFrame, tier: str) -> str:
    """The smallest size of `tier` near the best one, and whether the best may lie beyond those.

    `sweep` has one row per size and policy: capacity_bytes, policy, ttft_mean_s.
    """
    best, sizes = float(sweep["ttft_mean_s"].min()), sweep["capacity_bytes"]
    near = sweep[sweep["ttft_mean_s"] <= NEAR_BEST * best].sort_values("capacity_bytes")
    if near.empty:
        return "No request got a first token, so no size can be recommended."
    enough = near.iloc[0]
    found = f"{format_bytes(int(enough['capacity_bytes']))} of {tier} with {enough['policy']}"
    found += f" is within {NEAR_BEST - 1:.0%} of the best mean TTFT, {best:.4g} s."
    smaller = float(sweep.loc[sizes < sizes.max(), "ttft_mean_s"].min())
    # Not `>`: with one size there is no smaller one, and NaN is neither above nor below.
    if not smaller <= best * (1 + LEAST_MARGIN):
        found += " The largest size tried is the best: try larger."
    return found


def _winner(runs: Sequence[Mapping[str, Any]], found: Mapping[str, Any] | None) -> list[str]:
    means = {run["policy"]: run["ttft_s"]["mean"] for run in runs}
    known = {name: mean for name, mean in means.items() if mean is not None}
    if found is None or len(known) < 2:
        return [] if known else ["No request got a first token, so there is no TTFT to compare."]
    lowest = found["lowest"]
    least = known[lowest]
    if max(known.values()) == least:
        return [
            f"No difference: mean TTFT is {least:.4g} s under every policy ({', '.join(known)})."
        ]
    others = [_longer(entry, known, lowest) for entry in found["against"]]
    solid = [entry["policy"] for entry in found["against"] if entry["beyond_noise"]]
    lines = [f"{lowest} has the lowest mean TTFT, {least:.4g} s; longer: {'; '.join(others)}."]
    unsure = [entry["policy"] for entry in found["against"] if not entry["beyond_noise"]]
    if not solid:
        lines.append(f"{lowest} against {', '.join(unsure)}: no difference to build on.")
    elif unsure:
        lines.append(
            f"Slower beyond noise: {', '.join(solid)};"
            f" {lowest} against {', '.join(unsure)}: no difference to build on."
        )
    lines[-1] += (
        f" (Brackets: {CONFIDENCE:.0%} interval of the difference over the same requests.)"
        if any(entry["low_s"] is not None for entry in found["against"])
        else " (Too few requests for an interval.)"
    )
    lines.append(ONE_TRACE)
    if len({run["ttft_s"]["n"] for run in runs if run["policy"] in known}) > 1:
        lines.append("The policies served different numbers of requests, so means compare badly.")
    return lines


def _longer(entry: Mapping[str, Any], means: Mapping[str, float], lowest: str) -> str:
    name, least = entry["policy"], means[lowest]
    margin = f"{means[name] / least - 1:.2%}" if least else f"{means[name]:.4g} s"
    if entry["low_s"] is None:
        return f"{name} {margin}"
    return f"{name} {margin} [{entry['low_s']:+.2g} to {entry['high_s']:+.2g} s]"


def _queues(verdict: Mapping[str, Any], runs: int) -> list[str]:
    backlog = list(verdict.get("backlog", ()))
    growing = [name for name in verdict.get("growing_waits", ()) if name not in backlog]
    return _for_policies({QUEUE_UP: backlog, WAITS_GROW: growing}, runs)


def _rejections(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = [run["requests"] for run in runs if run["requests"]["generated"]]
    if not counts:
        return []
    worst = max(counts, key=lambda found: found["rejected"])
    share = worst["rejected"] / worst["generated"]
    if share <= MANY_REJECTED:
        return []
    return [
        f"{share:.1%} of the requests were rejected ({worst['rejected']:,} of"
        f" {worst['generated']:,}): every latency is of the others alone."
    ]


def _never_filled(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say so when no tier ever had to give anything up: then any policy does the same."""
    if not runs or any(_gave_up(run) for run in runs):
        return []
    so = "no policy had to choose and they cannot differ" if len(runs) > 1 else "nothing had to go"
    return [f"No tier ever filled, so {so}: use a longer trace or smaller tiers (--capacity)."]


def _gave_up(run: Mapping[str, Any]) -> bool:
    moved = any(move["cause"] == "demote" for move in run["moves"])
    return moved or any(run["counters"][n] for n in run["counters"] if n.startswith(_PRESSED))


def _untouched(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [
        tier
        for tier in (runs[0]["tiers"] if runs else ())
        if not any(run["tiers"][tier]["high_water_bytes"] for run in runs)
    ]
    return [f"Never used: {', '.join(names)}."] if names else []


def _few(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    sizes = [run["ttft_s"]["n"] for run in runs if 0 < run["ttft_s"]["n"] < FEW]
    return [f"p99 rests on n = {min(sizes)} requests: read it as the slowest one."] if sizes else []


def _warnings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    said: dict[str, list[str]] = {}
    for run in runs:
        for line in run["warnings"]:
            said.setdefault(line, []).append(run["policy"])
    return _for_policies(said, len(runs))


def _for_policies(said: Mapping[str, list[str]], runs: int) -> list[str]:
    """Each line that some policy has, with their names where it is not all of them."""
    return [
        line if len(policies) == runs else f"{', '.join(policies)}: {line}"
        for line, policies in said.items()
        if policies
    ]


def _assumptions(results: Mapping[str, Any]) -> list[str]:
    count = results.get("system", {}).get("assumptions", 0)
    if not count:
        return []
    what = "1 number of this machine is" if count == 1 else f"{count} numbers of this machine are"
    return [f"{what} remembered or chosen, not measured: see assumptions in config.json."]


def _first_room_blocks(results: Mapping[str, Any]) -> float | None:
    tokens = results.get("trace", {}).get("block_tokens")
    per_token = results.get("llm", {}).get("kv_bytes_per_token")
    tiers = list(results["runs"][0]["tiers"].values()) if results["runs"] else []
    if not tokens or not per_token or not tiers:
        return None
    return float(tiers[0]["capacity_bytes"] / (tokens * per_token))


def _signed(share: float) -> str:
    text = f"{share:+.1%}"
    return text[1:] if text[1:] == "0.0%" else text
