"""Time, memory and Markdown tables for the scripts beside this one. It knows no simulator."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TIERMEM_SHARED", REPOSITORY.parent / "shared"))
CONVERSATION = SHARED / "traces" / "mooncake" / "conversation_trace.first40min.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call: seconds on the wall, seconds of processor, and what it returned."""

    wall_s: float
    core_s: float
    result: Any = None


@dataclass(frozen=True, slots=True)
class Process:
    """One process from its start to its end, its children not included."""

    wall_s: float
    core_s: float
    peak_bytes: int
    out: str


def timed(work: Callable[[], Any]) -> Sample:
    """Call `work` once, with no garbage of earlier calls left to collect."""
    gc.collect()
    wall, core = time.perf_counter(), time.process_time()
    result = work()
    return Sample(time.perf_counter() - wall, time.process_time() - core, result)


def fresh(arguments: Sequence[str | Path], python: str | Path = sys.executable) -> Process:
    """Run `python arguments...` from the checkout; `SystemExit` with its words when it fails."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    start = time.perf_counter()
    child = subprocess.Popen(
        [str(python), *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert child.stdout is not None
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"a measured process ended with status {child.returncode}: {out}")
    wall_s = time.perf_counter() - start
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Process(wall_s, used.ru_utime + used.ru_stime, peak, out)


def spread(values: Iterable[float], digits: int = 2) -> str:
    """`median (least - greatest)`."""
    numbers = sorted(values)
    middle, least, most = (
        f"{number:,.{digits}f}" for number in (median(numbers), numbers[0], numbers[-1])
    )
    return f"{middle} ({least} - {most})"


def judged(values: Iterable[float], *, at_most: float = 0, at_least: float = 0) -> tuple[str, str]:
    """The target as text, and whether the median meets it: `("<= 3", "met")`."""
    middle = median(values)
    if at_most:
        return f"<= {at_most:,g}", "met" if middle <= at_most else "short"
    return f">= {at_least:,g}", "met" if middle >= at_least else "short"


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
