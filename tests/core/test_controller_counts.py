"""The core against exact counts: request by request, its prefix hits are those of `hits`.

Each request is leased, written and let go before the next. The core leases whole requests, so this
holds from the largest request on. It holds for LRU in both orders: what is in the cache after a
request is the capacity's worth of blocks used last, however room was made for it. FIFO keeps the
order of insertion, and there leasing matters: the core never evicts a block of the request it is
making room for, while the counts, block by block, do, and insert it again as new.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem import hits
from tiermem.core.controller import Controller
from tiermem.core.driver import Driver
from tiermem.core.messages import Acquire, Commit, Event, Ready, Release
from tiermem.policies.fifo import FIFO
from tiermem.testing.executors import InstantExecutor
from tiermem.traces import mooncake
from tiermem.traces.chat import chat
from tiermem.traces.trace import Trace, intern

RECORDED = (
    "mooncake/conversation_trace.first40min.jsonl.gz",
    "mooncake/synthetic_trace.jsonl.gz",
)


@pytest.fixture(scope="module")
def count(machine: Any, make_policy: Any) -> Callable[..., int]:
    """Prefix hits of a trace, by a controller alone, in one tier of so many blocks."""

    def play(trace: Trace, capacity: int, **parts: Any) -> int:
        room = {"hbm": capacity}
        controller = Controller(machine(room), room, make_policy(room, **parts))
        found = 0

        def listen(now: int, event: Event, actions: Any) -> None:
            nonlocal found
            for action in actions:
                if type(action) is Ready:
                    found += sum(blocks for _, blocks in action.hits)

        driver = Driver(controller, InstantExecutor(), (listen,))
        ids, offsets = trace.block_ids.tolist(), trace.block_offsets.tolist()
        for request in range(len(trace)):
            blocks = tuple(ids[offsets[request] : offsets[request + 1]])
            driver.post(Acquire(request, blocks, (1,) * len(blocks), "hbm"))
            driver.run()
            driver.post(Commit(request))
            driver.post(Release(request))
            driver.run()
        return found

    return play


def chains(*requests: str) -> Trace:
    """Requests as words; a block is a letter and all before it, so that ids are prefix ids."""
    names = [word[: n + 1] for word in requests for n in range(len(word))]
    lengths = np.array([len(word) for word in requests], dtype=np.int64)
    return Trace(
        name="chains",
        block_tokens=1,
        arrival_ns=np.arange(len(requests)),
        prompt_tokens=lengths,
        output_tokens=np.ones(len(requests), dtype=np.int64),
        block_ids=intern(names),
        block_offsets=np.concatenate([[0], np.cumsum(lengths)]),
        synthetic=True,
    )


def wanted(trace: Trace, policy: str, capacity: int, order: str) -> int:
    (row,) = hits.count(trace, [policy], [capacity], order)
    return row.prefix_hits


words = st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=25)


@settings(deadline=None, max_examples=150)
@given(requests=words, spare=st.integers(0, 8), order=st.sampled_from(hits.ORDERS))
def test_small_chains(
    count: Callable[..., int], requests: list[str], spare: int, order: str
) -> None:
    """LRU, any requests that share prefixes, any capacity from the largest request on."""
    trace = chains(*requests)
    capacity = trace.largest_request_blocks + spare
    assert count(trace, capacity, order=order) == wanted(trace, "lru", capacity, order)


@pytest.mark.parametrize("order", hits.ORDERS)
def test_generated_chat(count: Callable[..., int], order: str) -> None:
    """A chat load with shared system prompts and several turns."""
    trace = chat(requests=400, seed=11)
    largest = trace.largest_request_blocks
    for capacity in (largest, largest + 1, 2 * largest, 2000, trace.unique_blocks):
        assert count(trace, capacity, order=order) == wanted(trace, "lru", capacity, order)


def test_fifo_differs_and_why(count: Callable[..., int]) -> None:
    """Room for three, requests "ab", "c", "abd", "ab", forward, by hand.

    Block by block: a, b, c fill the room. "abd" hits a and b, and d evicts a, the oldest
    insertion. So the last "ab" finds nothing: a is gone, and b is no prefix. Leased: a and b are
    pinned when room is made for d, so c leaves, and the last "ab" finds both.
    """
    trace = chains("ab", "c", "abd", "ab")
    assert wanted(trace, "fifo", 3, "forward") == 2
    assert count(trace, 3, evict=FIFO, order="forward") == 4


@pytest.fixture(scope="module")
def recorded(shared: Path) -> dict[str, Trace]:
    """Both recorded traces, whole."""
    return {name: mooncake.read(shared / "traces" / name) for name in RECORDED}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("order", hits.ORDERS)
def test_recorded_traces(
    count: Callable[..., int],
    recorded: dict[str, Trace],
    reference_values: dict[str, Any],
    name: str,
    order: str,
) -> None:
    """Whole files, LRU: at the largest request itself as `hits` counts, and at two capacities as
    other programs counted."""
    trace = recorded[name]
    largest = trace.largest_request_blocks
    assert count(trace, largest, order=order) == wanted(trace, "lru", largest, order)
    reference = reference_values[name]["lru"][order]
    for capacity in ("1000", "20000"):
        assert int(capacity) >= largest
        found = count(trace, int(capacity), order=order)
        assert found == reference[capacity]["prefix_hits"]


@pytest.mark.parametrize("name", RECORDED)
def test_heads_of_recorded_traces_at_many_capacities(
    count: Callable[..., int], recorded: dict[str, Trace], name: str
) -> None:
    """The first 600 requests, LRU reverse, from the largest request up to all distinct blocks."""
    trace = recorded[name].head(600)
    sizes = np.linspace(trace.largest_request_blocks, trace.unique_blocks, 8).astype(int)
    for capacity in sizes.tolist():
        assert count(trace, capacity) == wanted(trace, "lru", capacity, "reverse")
