"""What a trace is, in numbers: enough to judge whether a result from it means anything.

Hits here are those of a cache that never forgets (no policy, no capacity): the ceiling for every
policy. A block hit is a reference to a block that an earlier reference brought in; a prefix hit
is one of the leading hits of a request, up to its first miss. Both are out of all references,
partial tails included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiermem.traces import checks
from tiermem.traces.trace import Ints, Trace
from tiermem.units import seconds


def summarise(trace: Trace) -> dict[str, Any]:
    """Counts, tokens, arrivals and reuse of `trace` as a dict that is strict JSON.

    What is undefined is None, with its reason beside it under `<key>_reason`.
    """
    n = len(trace)
    tied = checks.tied(trace.arrival_ns)
    duration_s = seconds(trace.duration_ns)
    summary: dict[str, Any] = {
        "name": trace.name,
        "synthetic": trace.synthetic,
        "digest": trace.digest,
        "requests": n,
        "references": trace.references,
        "unique_blocks": trace.unique_blocks,
        "block_tokens": trace.block_tokens,
        "largest_request_blocks": trace.largest_request_blocks,
        "prompt_tokens": _tokens(trace.prompt_tokens),
        "output_tokens": _tokens(trace.output_tokens),
        "duration_s": duration_s,
        "arrival_rate_per_s": (n - 1) / duration_s if duration_s else None,
    }
    if not duration_s:
        summary["arrival_rate_per_s_reason"] = "all requests arrive at the same instant"
    summary["tied_arrivals"] = {
        "requests": tied,
        "share": tied / n,
        "distinct_times": int((np.diff(trace.arrival_ns) > 0).sum()) + 1,
    }
    summary["reuse"] = _reuse(trace)
    summary["notices"] = list(trace.notices)
    summary["meta"] = dict(trace.meta)
    return summary


def _tokens(tokens: Ints) -> dict[str, int | float]:
    """Total, mean and nearest-rank percentiles over the requests."""
    p50, p95, p99 = np.percentile(tokens, [50, 95, 99], method="inverted_cdf").tolist()
    return {
        "total": int(tokens.sum()),
        "mean": float(tokens.mean()),
        "min": int(tokens.min()),
        "p50": int(p50),
        "p95": int(p95),
        "p99": int(p99),
        "max": int(tokens.max()),
        "n": len(tokens),
    }


def _reuse(trace: Trace) -> dict[str, Any]:
    counts = np.diff(trace.block_offsets)
    if not trace.references:
        return {
            "compulsory_misses": 0,
            "block_hits_max": None,
            "prefix_hits_max": None,
            "hit_ratio_max": None,
            "hit_ratio_max_reason": "no reuse information: no request has block ids",
            "fully_hit_requests": None,
        }
    seen = np.maximum.accumulate(trace.block_ids)
    misses = np.diff(seen, prepend=-1) > 0  # ids are dense in first-seen order
    some = np.flatnonzero(counts)
    starts = trace.block_offsets[:-1][some]
    # The first miss of each request, or its end when it has none.
    place = np.where(misses, np.arange(len(misses)), len(misses))
    ends = np.minimum(np.minimum.reduceat(place, starts), starts + counts[some])
    return {
        "compulsory_misses": trace.unique_blocks,
        "block_hits_max": trace.references - trace.unique_blocks,
        "prefix_hits_max": int((ends - starts).sum()),
        "hit_ratio_max": (trace.references - trace.unique_blocks) / trace.references,
        "fully_hit_requests": int((ends - starts == counts[some]).sum()),
    }
