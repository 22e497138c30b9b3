"""How much of one tier (DRAM, say) does this trace need?

Sweeps the capacity of one tier, simulates at each size, and shows the share of prompt tokens hit
and the time to first token against capacity. The smallest size within 5 % of the best mean TTFT is
the recommendation. Writes `table.md`, `table.parquet` and one figure. The tiers below the swept
one are shrunk to 1 GiB each, so that they cannot stand in for it; `--keep-below` leaves them.

    python experiments/size_tiers.py --tier dram --sizes 16GiB,64GiB,256GiB --out results/dram
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

import tiermem
from tiermem.errors import InputError, TiermemError
from tiermem.models import presets
from tiermem.report import metrics, origin, remarks, tables
from tiermem.report.plots.figures import draw_sweep
from tiermem.units import format_bytes, parse_bytes

# --quick: the head of the trace, on an engine with room for so few that something is evicted.
QUICK_REQUESTS, QUICK_KV_BLOCKS = 200, 8192


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--trace", default="synthetic-chat", help="a path or a catalogue name")
    parser.add_argument("--system", default="h100-ddr5-cxl-nvme")
    parser.add_argument("--llm", default="llama-3.1-8b")
    parser.add_argument("--policy", default="lru,s3fifo", help="several by commas")
    parser.add_argument("--tier", default="dram")
    parser.add_argument("--sizes", default="4GiB,16GiB,64GiB,128GiB,256GiB,512GiB,1TiB")
    parser.add_argument(
        "--keep-below", action="store_true", help="leave the tiers below as they are"
    )
    parser.add_argument("--out", type=Path, default=Path("results/size_tiers"))
    parser.add_argument("--quick", action="store_true", help="a small part, in seconds")
    return parser.parse_args()


def sweep(args: argparse.Namespace) -> tuple[pd.DataFrame, dict[str, object]]:
    """One row per capacity and policy, and the subject for tables and figures."""
    trace, model = tiermem.open_trace(args.trace), presets.llm(args.llm)
    sizes = [parse_bytes(size) for size in args.sizes.split(",")]
    if args.quick:
        trace, sizes = trace.head(min(QUICK_REQUESTS, len(trace))), sizes[:3]
    kv_blocks = QUICK_KV_BLOCKS if args.quick else None
    names = presets.system(args.system).topology
    below = () if args.keep_below else names.below(args.tier)
    rows = []
    for size in sizes:
        capacities = {args.tier: size} | {tier: parse_bytes("1GiB") for tier in below}
        machine = presets.system(args.system, capacities=capacities, kv_blocks=kv_blocks)
        for policy in args.policy.split(","):
            run = tiermem.simulate(tiermem.Scenario(trace, machine, model, policy))
            found = metrics.results(run)
            ttft, row = found["ttft_s"], {"tier": args.tier, "capacity_bytes": size}
            row |= {"policy": policy, "hit_share": found["hit_share"], "n": ttft["n"]}
            rows.append(row | {f"ttft_{key}_s": ttft[key] for key in ("mean", "p50", "p99")})
            print(f"{args.tier} {format_bytes(size)}, {policy}: done", file=sys.stderr)
    return pd.DataFrame(rows), origin.about(trace, machine, model, 0)


def main() -> int:
    """Sweep, save the table, draw, recommend."""
    args = arguments()
    try:
        if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
            raise InputError("there is something here already; choose another --out", path=args.out)
        table, subject = sweep(args)
    except TiermemError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    args.out.mkdir(parents=True, exist_ok=True)
    table.to_parquet(args.out / "table.parquet", index=False)
    page = f"{tables.plain(table)}\n{remarks.size_advice(table, args.tier)}\n"
    print(page, end="")
    (args.out / "table.md").write_text(page, encoding="utf-8")
    notes = [] if args.keep_below else [f"tiers below {args.tier}: 1 GiB each"]
    print(draw_sweep(table, subject, args.out / "size_tiers.png", notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
