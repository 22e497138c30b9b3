"""What can be told about a trace from its numbers alone: does it fit, and is it plausible?

Nothing here refuses anything: a reader turns a misfit into an error of its own format, and the
rest into notices.
"""

from __future__ import annotations

import numpy as np

from tiermem.traces.trace import Ints
from tiermem.units import NS_PER_S

# Arrival rates outside of these suggest a mistaken time unit, not a load: one engine serves
# somewhere between one request in a hundred seconds and a thousand per second.
RATE_PER_S_MIN = 0.01
RATE_PER_S_MAX = 1000.0


def misfits(prompt_tokens: Ints, counts: Ints, block_tokens: int) -> Ints:
    """Requests whose number of ids is neither ceil nor floor of prompt_tokens / block_tokens."""
    full = prompt_tokens // block_tokens
    tail = (prompt_tokens % block_tokens > 0).astype(np.int64)
    return np.flatnonzero((counts != full) & (counts != full + tail))


def fitting_block_tokens(prompt_tokens: Ints, counts: Ints) -> int | None:
    """A block size with which every request has ceil (or every one floor) of its length in ids.

    Of the sizes that fit, the smallest power of two is preferred; None when nothing fits. A
    request without ids suggests floor, and is taken as shorter than a block under ceil.
    """
    some = counts > 0
    if not some.any():
        return None
    # ceil(p / b) == k  <=>  p / k <= b < p / (k - 1)
    low = -(-prompt_tokens[some] // counts[some])
    many = counts > 1
    high = (prompt_tokens[many] - 1) // (counts[many] - 1)
    empty = prompt_tokens[~some] + 1
    ceil = (max(low.max(), empty.max(initial=1)), high.min(initial=2**31))
    # floor(p / b) == k  <=>  p / (k + 1) < b <= p / k
    low = prompt_tokens // (counts + 1) + 1
    high = prompt_tokens[some] // counts[some]
    floor = (low.max(), high.min())
    for least, most in (ceil, floor) if some.all() else (floor, ceil):
        if 1 <= least <= most:
            power = 1 << (int(least) - 1).bit_length()
            return power if power <= most else int(least)
    return None


def tied(arrival_ns: Ints) -> int:
    """Requests that share their arrival time with at least one other."""
    same = np.diff(arrival_ns) == 0
    return int((np.append(same, False) | np.append(False, same)).sum())


def chain_notices(block_ids: Ints, block_offsets: Ints) -> list[str]:
    """Ids that do not name a prefix: they recur at another place, or behind another block."""
    if not len(block_ids):
        return []
    counts = np.diff(block_offsets)
    starts = block_offsets[:-1][counts > 0]
    position = np.arange(len(block_ids)) - np.repeat(block_offsets[:-1], counts)
    before = np.concatenate([[-1], block_ids[:-1]])
    before[starts] = -1
    _, first = np.unique(block_ids, return_index=True)
    moved = (position != position[first][block_ids]) | (before != before[first][block_ids])
    found = []
    pairs = np.sort(np.repeat(np.arange(len(counts)), counts) * len(first) + block_ids)
    repeats = int((np.diff(pairs) == 0).sum())
    if repeats:
        found.append(
            f"{repeats:,} block references repeat an id within one request; "
            "each of them counts as a reference"
        )
    if moved.any():
        found.append(
            f"{int(moved.sum()):,} of {len(block_ids):,} block references follow another block "
            "or stand at another place than where their id was first seen: these ids name "
            "contents rather than prefixes, and block hits can exceed prefix hits"
        )
    return found


def arrival_notices(arrival_ns: Ints) -> list[str]:
    """Ties, and rates that suggest a mistaken time unit."""
    n, span_ns = len(arrival_ns), int(arrival_ns[-1])
    ties = tied(arrival_ns)
    found = []
    if ties:
        found.append(
            f"{ties:,} of {n:,} requests ({ties / n:.1%}) share their arrival time with another; "
            "they are taken in file order"
        )
    if n > 1 and span_ns == 0:
        found.append("all requests arrive at the same instant")
    elif n > 1:
        rate = (n - 1) * NS_PER_S / span_ns
        if not RATE_PER_S_MIN <= rate <= RATE_PER_S_MAX:
            found.append(
                f"the implied arrival rate is {rate:.4g} requests per second over "
                f"{span_ns / NS_PER_S:.4g} s: is the time unit right?"
            )
    return found
