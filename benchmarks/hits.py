"""References per second of `tiermem hits`, per policy, on one core in a warm process.

    python benchmarks/hits.py TRACE [capacity ...]

TRACE is a path or a catalogue name. Each line is the best of three whole calls of `count`, with all
capacities in one call; the rate counts the trace once per call for LRU, whose one pass answers
every capacity, and once per capacity for the others.
"""

from __future__ import annotations

import sys
import time

from tiermem import hits
from tiermem.traces.catalog import open_trace
from tiermem.traces.trace import Trace

CAPACITIES = [1000, 3000, 10_000, 30_000, 100_000]


def best_s(trace: Trace, policy: str, capacities: list[int], order: str) -> float:
    """Processor seconds of the fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        hits.count(trace, [policy], capacities, order)
        times.append(time.process_time() - start)
    return min(times)


def main(arguments: list[str]) -> None:
    """Print one line per policy and order."""
    if not arguments:
        raise SystemExit("usage: python benchmarks/hits.py TRACE [capacity ...]")
    trace = open_trace(arguments[0])
    capacities = [int(text) for text in arguments[1:]] or CAPACITIES
    print(f"{trace.name}: {trace.references:,} references, capacities {capacities}")
    for row in hits.policy_rows():
        for order in hits.ORDERS:
            taken = best_s(trace, row["name"], capacities, order)
            replays = 1 if row["name"] in ("lru", "infinite") else len(capacities)
            rate = trace.references * replays / taken / 1e6
            print(f"{row['name']:>14} {order:8} {taken:7.3f} s {rate:7.2f} M references/s")


if __name__ == "__main__":
    main(sys.argv[1:])
