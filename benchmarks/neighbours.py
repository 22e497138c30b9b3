"""Side by side with a neighbour: the AISimulate engine of `ai-dynamo-runtime`, on the same load.

    python benchmarks/neighbours.py [--environment DIR] [--repeat N]

The neighbour is installed from the package index into a virtual environment of its own (DIR, kept;
or a temporary folder), without what it does not need to simulate. Runs alternate: ours, theirs,
ours, theirs; each is a fresh process, and ratios are taken per pair. When it cannot be installed
the script says so and prints our side.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from measure import Process, fresh, print_table, spread, timed
from serving import A100, LLM, OUTPUT_TOKENS, PROMPT_TOKENS, RATE_PER_S, load

VERSION = "1.6.1"
REQUESTS = 2000
HBM_BLOCKS, HOST_BLOCKS, STORAGE_BLOCKS = 26_000, 16_384, 1_000_000  # of 16 tokens
BLOCK_BYTES = 16 * 131_072
ROWS = {"hbm": 1, "+ host": 2, "+ host + storage": 3}
"""The rows of the table, and how many tiers are in them."""

THEIRS = """
import json, sys, time
start = time.perf_counter()
from dynamo.replay.api import run_synthetic_trace_replay
engine = json.loads(sys.argv[1])
prompt, output, requests, rate = json.loads(sys.argv[2])
began = time.perf_counter()
report = run_synthetic_trace_replay(prompt, output, requests, request_rate=rate, arrival_seed=1,
                                    extra_engine_args={"engine": engine})
print(json.dumps([time.perf_counter() - began, report.summary["completed_requests"]]))
"""


def their_engine(tiers: int) -> dict[str, object]:
    """Their engine with so many tiers."""
    engine: dict[str, object] = {
        "block_size": 16,
        "num_gpu_blocks": HBM_BLOCKS,
        "kv_cache_bytes_per_token": BLOCK_BYTES // 16,
    }
    if tiers > 1:
        engine["native_host_offload"] = {"num_host_blocks": HOST_BLOCKS}
    if tiers > 2:
        engine["g3_offload"] = {
            "scope": "worker_local",
            "num_g3_blocks": STORAGE_BLOCKS,
            "read_bandwidth_gbps": 7.0,
            "write_bandwidth_gbps": 5.0,
        }
    return engine


def ours(tiers: int, block_tokens: int) -> None:
    """In a fresh process: play the load on as many tiers, of the same sizes, and print the time."""
    from tiermem.models.presets import llm, system
    from tiermem.models.topology import Topology
    from tiermem.scenario import Scenario, simulate

    sizes = {"dram": HOST_BLOCKS * BLOCK_BYTES, "nvme": STORAGE_BLOCKS * BLOCK_BYTES}
    whole = system(A100, kv_blocks=HBM_BLOCKS, kv_block_tokens=16, capacities=sizes)
    kept = whole.topology.tiers[:tiers]
    names = {"host", *(tier.name for tier in kept)}
    links = tuple(link for link in whole.topology.links if names.issuperset(link.ends))
    machine = replace(whole, topology=Topology(kept, links if tiers > 1 else ()))
    scenario = Scenario(load(REQUESTS, block_tokens), machine, llm(LLM), "lru")
    sample = timed(lambda: simulate(scenario))
    completed = int((sample.result.tables["requests"]["state"] == "completed").sum())
    print(json.dumps([sample.wall_s, completed]))


def installed(folder: Path) -> Path | None:
    """The Python of an environment that has the neighbour; None, and why, if there is none."""
    python = folder / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for wanted in ([f"ai-dynamo-runtime=={VERSION}"], ["--no-deps", f"ai-dynamo=={VERSION}"]):
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            print(f"the neighbour cannot be installed ({wanted[-1]}): {why}\n")
            return None
    return python


def pair(tiers: int, python: Path | None) -> list[Process | None]:
    """Ours at two block sizes, then theirs."""
    sides: list[Process | None] = [
        fresh([__file__, "--ours", str(tiers), str(block_tokens)]) for block_tokens in (512, 16)
    ]
    asked = json.dumps([PROMPT_TOKENS, OUTPUT_TOKENS, REQUESTS, RATE_PER_S])
    engine = json.dumps(their_engine(tiers))
    sides.append(fresh(["-c", THEIRS, engine, asked], python) if python else None)
    return sides


def lines(name: str, pairs: list[list[Process | None]]) -> list[tuple[str, ...]]:
    """The table rows of one number of tiers; a ratio above 1 says that ours is faster."""
    rows = []
    for side, label in enumerate(("ours, 512-token blocks", "ours, 16-token blocks", "theirs")):
        runs = [each[side] for each in pairs]
        if None in runs:
            continue
        calls, completed = zip(*(json.loads(run.out) for run in runs if run), strict=True)
        assert set(completed) == {REQUESTS}, "every request is served on both sides"
        ratios = ("", "")
        others = [each[2] for each in pairs]
        if side < 2 and None not in others:
            theirs = [json.loads(other.out)[0] for other in others if other]
            both = [(run, other) for run, other in zip(runs, others, strict=True) if run and other]
            ratios = (
                spread(their / call for their, call in zip(theirs, calls, strict=True)),
                spread(other.wall_s / run.wall_s for run, other in both),
            )
        walls = spread(run.wall_s for run in runs if run)
        peak = spread((run.peak_bytes / 1e6 for run in runs if run), 0)
        rate = f"{REQUESTS / sorted(calls)[len(calls) // 2]:,.0f}"
        rows.append((name, label, spread(calls, 3), rate, walls, peak, *ratios))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environment", type=Path, help="folder of the neighbour's environment")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ours", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        ours(*options.ours)
        return
    with tempfile.TemporaryDirectory() as folder:
        python = installed(options.environment or Path(folder) / "neighbour")
        rows = []
        for name, tiers in ROWS.items():
            rows += lines(name, [pair(tiers, python) for _ in range(options.repeat)])
    head = ["tiers", "side", "run call, s", "requests/s", "whole process, s", "peak MB"]
    print_table([*head, "theirs / ours: run call", "theirs / ours: process"], rows)


if __name__ == "__main__":
    main()
