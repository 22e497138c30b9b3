"""Which eviction policy serves this trace fastest on this machine, and how far is the best one
from the optimum?

Simulates each policy on the same trace, system and model, counts hits over capacity beside LRU
in both touch orders, Belady and an infinite cache, and leaves a run folder with five figures and
`table.md`. `--quick` takes the head of the trace and a smaller machine, and ends in seconds.

    python experiments/compare_policies.py --out results/policies
    python experiments/compare_policies.py --trace my.jsonl --policy lru,my_file:MyPolicy --out out
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

import tiermem
from tiermem.errors import TiermemError
from tiermem.report import tables
from tiermem.units import parse_bytes

# --quick: the head of the trace, on tiers that it fills (otherwise no policy has to decide).
QUICK_REQUESTS, QUICK_KV_BLOCKS = 200, 8192
QUICK_CAPACITIES = {"dram": "8GiB", "cxl": "8GiB", "nvme": "16GiB"}


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--trace", default="synthetic-chat", help="a path or a catalogue name")
    parser.add_argument("--system", default="h100-ddr5-cxl-nvme")
    parser.add_argument("--llm", default="llama-3.1-8b")
    parser.add_argument("--policy", default="lru,fifo,lfu,s3fifo", help="several by commas")
    parser.add_argument("--out", type=Path, default=Path("results/compare_policies"))
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    parser.add_argument("--quick", action="store_true", help="a small part, in seconds")
    return parser.parse_args()


def main() -> int:
    """Run the comparison, print the table, name the figures."""
    args = arguments()
    try:
        trace = tiermem.open_trace(args.trace)
        capacities = {}
        if args.quick:
            trace = trace.head(min(QUICK_REQUESTS, len(trace)))
            capacities = {tier: parse_bytes(size) for tier, size in QUICK_CAPACITIES.items()}
        found = tiermem.compare(
            trace=trace,
            system=args.system,
            llm=args.llm,
            policies=args.policy.split(","),
            out=args.out,
            capacities=capacities,
            kv_blocks=QUICK_KV_BLOCKS if args.quick else None,
            overwrite=args.overwrite,
            on_saved=lambda saved: tables.show(saved, Console()),
        )
    except TiermemError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    for figure in found.figures:
        print(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
