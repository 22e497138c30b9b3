"""The speed of whole serving simulations, and what it grows with.

    python benchmarks/serving.py [PART ...] [--trace TRACE] [--repeat N]

PART is any of conversation, uniform, linear, events, residents (all of them by default). A rate is
requests per second of the run call, `simulate(...)`: everything but start-up, tables included.
`core` is processor time, which a busy machine disturbs less than the wall clock.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from measure import CONVERSATION, Sample, fresh, judged, print_table, spread, timed

FOUR_TIERS, A100, LLM = "h100x4-ddr5-cxl-nvme", "a100-ddr5-nvme", "llama-3.1-8b"
PROMPT_TOKENS, OUTPUT_TOKENS, RATE_PER_S = 1155, 211, 5.5
GIB = 2**30
SMALL = {"hbm": 4096, "dram": 16 * GIB, "cxl": 16 * GIB, "nvme": 32 * GIB}  # hbm: blocks of 16
NO_BATCH = "lru:place=waterfall/ahead=0"  # every demotion by itself, whatever the tier holds
HEAD = ("what", "measured: median (min - max)", "core", "target", "")


def machine(name: str, small: int = 0) -> Any:
    """A system as shipped; or with HBM of `SMALL` and lower tiers of `small` times `SMALL`."""
    from tiermem.models.presets import system

    if not small:
        return system(name)
    lower = system(name).topology.names[1:]
    sizes = {tier: small * SMALL[tier] for tier in lower}
    return system(name, kv_blocks=SMALL["hbm"], capacities=sizes)


def load(requests: int, block_tokens: int = 512) -> Any:
    """The load that the neighbours are measured with too."""
    from tiermem.traces import synthetic

    return synthetic.uniform(
        requests=requests,
        prompt_tokens=PROMPT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        rate_per_s=RATE_PER_S,
        seed=1,
        block_tokens=block_tokens,
    )


def played(trace: Any, system: Any, policy: str = "lru") -> Sample:
    """One run call, timed."""
    from tiermem.models.presets import llm
    from tiermem.scenario import Scenario, simulate

    scenario = Scenario(trace, system, llm(LLM), policy)
    return timed(lambda: simulate(scenario))


def child(trace_path: str, started: float) -> None:
    """In a fresh process: start up, play the trace, and print what it took."""
    from tiermem.models.presets import llm, system
    from tiermem.scenario import Scenario, simulate
    from tiermem.traces.catalog import open_trace

    scenario = Scenario(open_trace(trace_path), system(FOUR_TIERS), llm(LLM), "lru")
    start_up_s = time.time() - started
    sample = timed(lambda: simulate(scenario))
    states = sample.result.tables["requests"]["state"].value_counts()
    print(json.dumps([start_up_s, sample.wall_s, sample.core_s, states.to_dict()]))


def conversation(arguments: argparse.Namespace) -> None:
    """A recorded trace on four tiers, in fresh processes."""
    if not Path(arguments.trace).is_file():
        print(f"conversation: skipped, no file {arguments.trace}; name a trace with --trace\n")
        return
    runs, peaks = [], []
    for _ in range(arguments.repeat):
        flags = [__file__, "--trace", arguments.trace, "--child"]
        process = fresh([*flags, repr(time.time())])
        runs.append(json.loads(process.out))
        peaks.append(process.peak_bytes / 1e6)
    start_up, wall, core, states = zip(*runs, strict=True)
    ended = ", ".join(f"{requests:,} {state}" for state, requests in states[0].items())
    what = f"run call, s ({ended})"
    print_table(
        HEAD,
        [
            (what, spread(wall), spread(core), *judged(core, at_most=3)),
            ("peak memory of the process, MB", spread(peaks, 0), "", *judged(peaks, at_most=600)),
            ("start-up, s", spread(start_up), "", *judged(start_up, at_most=1.5)),
        ],
    )


def uniform(arguments: argparse.Namespace) -> None:
    """Requests per second of wall time; and what became of the blocks, as proof."""
    rows, notes = [], []
    cases = [(name, small, 512) for name in (FOUR_TIERS, A100) for small in (0, 1)]
    for name, small, block_tokens in [*cases, (FOUR_TIERS, 1, 16)]:
        trace, system = load(2000, block_tokens), machine(name, small)
        played(trace.head(200), system)
        samples = [played(trace, system) for _ in range(arguments.repeat)]
        rates = [2000 / sample.wall_s for sample in samples]
        on_core = spread((2000 / sample.core_s for sample in samples), 0)
        what = f"{name}, {'small' if small else 'shipped'} tiers, {block_tokens}-token blocks"
        target = judged(rates, at_least=5000) if block_tokens == 512 else ("", "")
        rows.append((f"requests/s: {what}", spread(rates, 0), on_core, *target))
        counted = samples[0].result.counters
        moved = ", ".join(
            f"{key.removesuffix('_blocks')} {blocks:,}"
            for key, blocks in counted.items()
            if key.endswith("_blocks") and blocks
        )
        notes.append(f"- {what}: {trace.references:,} blocks written; {moved}")
    print_table(HEAD, rows)
    print("\n".join(notes), "\n", flush=True)


def linear(arguments: argparse.Namespace) -> None:
    """The cost of a request in a trace ten times as long, tiers full and evicting."""
    system = machine(FOUR_TIERS, 1)
    short, long = load(2000), load(20_000)
    played(short.head(200), system)
    walls, cores = [], []
    for _ in range(arguments.repeat):
        one, ten = played(short, system), played(long, system)
        walls.append(ten.wall_s / one.wall_s / 10)
        cores.append(ten.core_s / one.core_s / 10)
    what = "cost of one of 20,000 requests / one of 2,000"
    print_table(HEAD, [(what, spread(walls), spread(cores), *judged(walls, at_most=1.3))])


def bare_loop(events: int) -> Sample:
    """SimPy alone: one process that waits `events` times."""
    import simpy

    environment = simpy.Environment()

    def wait() -> Generator[simpy.Event, None, None]:
        for _ in range(events):
            yield environment.timeout(1)

    environment.process(wait())
    return timed(environment.run)


def events(arguments: argparse.Namespace) -> None:
    """Events per request, and the time beside a bare SimPy loop of as many."""
    system, trace, pairs = machine(FOUR_TIERS, 1), load(2000), []
    for _ in range(arguments.repeat):
        sample = played(trace, system)
        pairs.append((sample, bare_loop(sample.result.counters["events"])))
    each = [sample.result.counters["events"] / 2000 for sample, _ in pairs]
    ratios = [sample.wall_s / bare.wall_s for sample, bare in pairs]
    on_core = [sample.core_s / bare.core_s for sample, bare in pairs]
    per_request = ("events per request", spread(each), "", *judged(each, at_most=6))
    beside = ("time / a bare SimPy loop", spread(ratios, 1), spread(on_core, 1), "", "")
    print_table(HEAD, [per_request, beside])


def residents(arguments: argparse.Namespace) -> None:
    """The time per event when the lower tiers hold ten times as much."""
    trace, sides = load(6000, 16), (machine(FOUR_TIERS, 1), machine(FOUR_TIERS, 10))
    block_bytes = 16 * 131_072
    walls, cores = [], []
    for _ in range(arguments.repeat):
        few, many = (played(trace, system, NO_BATCH) for system in sides)
        scale = few.result.counters["events"] / many.result.counters["events"]
        walls.append(many.wall_s / few.wall_s * scale)
        cores.append(many.core_s / few.core_s * scale)
        ends = (side.result.tables["occupancy"].iloc[-1, 1:].sum() for side in (few, many))
        held = [int(nbytes) // block_bytes for nbytes in ends]
    what = f"time per event, {held[1]:,} resident blocks / {held[0]:,}"
    print_table(HEAD, [(what, spread(walls), spread(cores), *judged(walls, at_most=1.3))])


PARTS = {part.__name__: part for part in (conversation, uniform, linear, events, residents)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--trace", default=str(CONVERSATION))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.trace, options.child)
        raise SystemExit
    for part in options.part or PARTS:
        if part not in PARTS:
            parser.error(f"no part {part!r}; there are {', '.join(PARTS)}")
        print(f"## {part}\n")
        PARTS[part](options)
