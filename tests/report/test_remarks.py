"""The comparison in words: who wins, by how much, and when that means nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tiermem.report import evidence, metrics
from tiermem.report import remarks as sentences

Make = Callable[..., Any]

COLUMNS = ["policy", "capacity_blocks", "order", "references", "block_hits", "prefix_hits"]
NO_HITS = pd.DataFrame(columns=COLUMNS)
BLOCKS = {"trace": {"block_tokens": 2}, "llm": {"kv_bytes_per_token": 5}}


def remarks(runs: list[Any], hits: pd.DataFrame = NO_HITS, **more: Any) -> str:
    """What is said about `runs`, as one text."""
    results = {"runs": [metrics.results(run) for run in runs], **more}
    return "\n".join(sentences.remarks(results, hits, evidence.weigh(runs, 0)))


def served(small: Make, policy: str, ttft_ns: int, **changes: Any) -> Any:
    """A run of one request whose first token took that long."""
    row = {"first_token_ns": ttft_ns, "last_token_ns": ttft_ns, "tokens_recompute": 4}
    return small([row], policy=policy, **changes)


def noisy(small: Make, policy: str, more_s: float, noise_s: float) -> Any:
    """A run of 400 requests: TTFT 10 s and `more_s`, `noise_s` more and less by turns of 20."""
    spans = 10 + more_s + noise_s * np.repeat([1, -1] * 10, 20)
    first = [(place + span) * 1e9 for place, span in enumerate(spans)]
    return small(
        [
            {"arrival_ns": place * 10**9, "first_token_ns": int(at), "last_token_ns": int(at)}
            for place, at in enumerate(first)
        ],
        policy=policy,
    )


def test_the_winner_stands_beside_every_other_policy(small: Make) -> None:
    """The order asked for does not matter; each other policy has its own margin."""
    runs = [served(small, "a", 300), served(small, "b", 200), served(small, "c", 250)]
    text = remarks(runs)
    assert "b has the lowest mean TTFT" in text
    assert "longer: c 25.00%; a 50.00%." in text
    assert "One trace is one realisation" in text


def test_a_difference_within_noise_is_nothing_to_build_on(small: Make) -> None:
    """3 % that is now five seconds more, now less, is none; steady 30 % is one."""
    runs = [noisy(small, "a", 0, 0), noisy(small, "b", 0.3, 5), noisy(small, "c", 3, 0)]
    text = remarks(runs)
    assert "c 30.00% [+3 to +3 s]" in text
    assert "Slower beyond noise: c; a against b: no difference to build on." in text
    assert "95% interval" in text


def test_equal_policies_are_called_equal(small: Make) -> None:
    """No winner is named where there is no difference; less than 1 % is none to build on."""
    equal = remarks([served(small, "a", 300), served(small, "b", 300)])
    assert "No difference: mean TTFT is 3e-07 s under every policy (a, b)" in equal
    assert "One trace is one realisation" not in equal
    close = remarks([noisy(small, "a", 0, 0.0), noisy(small, "b", 0.05, 0.0)])
    assert "[+0.05 to +0.05 s]" in close
    assert "a against b: no difference to build on" in close


def test_a_single_policy_is_not_compared(small: Make) -> None:
    """`simulate`: no winner, no gap, nothing about policies that are not there."""
    rows = [(name, 100, "reverse", 50, n, n) for name, n in (("lru", 10), ("belady", 30))]
    busy = {"counters": {"dropped_evict_hbm_blocks": 1}}
    runs = [served(small, "lru", 300, **busy)]
    text = remarks(runs, pd.DataFrame(rows, columns=COLUMNS), **BLOCKS)
    assert "TTFT" not in text
    assert "Belady" not in text
    assert "polic" not in text


def test_rejections_come_first(small: Make) -> None:
    """More than 1 % of the requests rejected stand before the winner; 1 % does not."""
    good = {"first_token_ns": 5, "last_token_ns": 5, "tokens_recompute": 4}
    bad = {"state": "rejected", "tokens_rejected": 5}
    first, *_ = remarks([small([bad, bad, *[good] * 98])]).splitlines()
    assert first.startswith("2.0% of the requests were rejected (2 of 100)")
    assert "rejected" not in remarks([small([bad, *[good] * 99])])


def test_a_queue_that_grows_is_said(small: Make) -> None:
    """A backlog after the last arrival, or long waits at the end only; for whom, if not all."""

    def waits(policy: str, *wait_s: float) -> Any:
        rows = []
        for place, wait in enumerate(wait_s):
            arrival, admitted = place * 10**10, int(place * 10**10 + wait * 1e9)
            times = {"arrival_ns": arrival, "admitted_ns": admitted}
            rows.append(times | {"first_token_ns": admitted, "last_token_ns": admitted + 10**9})
        return small(rows, policy=policy)

    calm = waits("calm", *[0.1] * 40)
    assert "queue up" not in remarks([calm])
    over = waits("over", *(place * 2.0 for place in range(40)))
    assert sentences.QUEUE_UP in remarks([over]).splitlines()
    burst = small(  # all at once, served one a second: waits are part of every e2e
        [
            {"admitted_ns": at, "first_token_ns": at + 10**9, "last_token_ns": at + 10**9}
            for at in range(0, 40 * 10**9, 10**9)
        ]
    )
    assert sentences.QUEUE_UP in remarks([burst]).splitlines()
    late = waits("late", *[0.1] * 30, *[2.0] * 10)
    assert sentences.WAITS_GROW in remarks([late]).splitlines()
    assert f"over: {sentences.QUEUE_UP}" in remarks([calm, over]).splitlines()


def test_numbers_nobody_measured_are_counted(small: Make) -> None:
    """One line says how many values of the machine are remembered or chosen."""
    runs = [served(small, "a", 300)]
    assert "3 numbers of this machine are" in remarks(runs, system={"assumptions": 3})
    assert "1 number of this machine is" in remarks(runs, system={"assumptions": 1})
    assert "of this machine" not in remarks(runs, system={"assumptions": 0})


def test_policies_that_never_had_to_choose_are_not_told_apart(small: Make) -> None:
    """Fault 63: when no tier gave anything up, and which tiers were never used."""
    idle = [served(small, "a", 300), served(small, "b", 300)]
    assert "No tier ever filled" in remarks(idle)
    assert "Never used: hbm, nvme." in remarks(idle)
    busy = [served(small, "a", 300, counters={"dropped_evict_hbm_blocks": 1})]
    assert "No tier ever filled" not in remarks(busy)
    forgot = [served(small, "a", 300, counters={"dropped_forget_hbm_blocks": 1})]
    assert "No tier ever filled" in remarks(forgot)


@pytest.fixture
def counts() -> pd.DataFrame:
    """Hits of four policies at two capacities; the way to Belady is wider at the second."""
    rows = [("lru", 100, 10), ("good", 100, 15), ("bad", 100, 5), ("even", 100, 10)]
    rows += [("belady", 100, 30), ("lru", 400, 10), ("good", 400, 50), ("bad", 400, 10)]
    rows += [("even", 400, 10), ("belady", 400, 90)]
    full = [(name, size, "reverse", 99, hits, hits) for name, size, hits in rows]
    return pd.DataFrame([*full, ("lru", 100, "forward", 99, 2, 1)], columns=COLUMNS)


def test_the_belady_gap_has_its_sign(counts: pd.DataFrame) -> None:
    """Fault 144: LRU 10, Belady 30: 15 hits are +25 %, 5 are -25 %, 10 are 0 without a sign."""
    (line,) = sentences.belady_gap(counts, 100)
    assert "at 100 blocks" in line
    assert "(20 hits)" in line
    assert line.endswith(": good +25.0%, bad -25.0%, even 0.0%.")


@pytest.mark.parametrize(("room", "quoted"), [(1, 100), (190, 100), (210, 400), (10**6, 400)])
def test_the_belady_gap_is_that_of_the_fastest_tier(
    counts: pd.DataFrame, room: int, quoted: int
) -> None:
    """It is quoted at the capacity nearest to what the tier holds, as a ratio: 200 is between."""
    (line,) = sentences.belady_gap(counts, room)
    assert f"at {quoted} blocks" in line


def test_no_gap_is_quoted_when_no_tier_filled(small: Make, counts: pd.DataFrame) -> None:
    """A room of 1,000 bytes is 100 blocks of 10; a tier that never filled has no gap to close."""
    busy = {"counters": {"dropped_evict_hbm_blocks": 1}}
    assert "at 100 blocks" in remarks([served(small, "good", 3, **busy)], counts, **BLOCKS)
    assert "Belady" not in remarks([served(small, "good", 3)], counts, **BLOCKS)


def test_few_requests_are_flagged(small: Make) -> None:
    """Fault 132: a p99 of few values says how few."""
    assert "p99 rests on n = 1 requests" in remarks([served(small, "a", 300)])


def test_failures_and_synthetic_traces_are_named(small: Make) -> None:
    """A policy that raised is named with its message, and a made-up trace is called synthetic."""
    text = remarks(
        [served(small, "a", 300)],
        failed=[{"policy": "mine", "error": "raised ValueError: no"}],
        trace={"name": "t", "synthetic": True},
    )
    assert "FAILED: mine: raised ValueError: no" in text
    assert "synthetic" in text
    told = {"name": "t", "synthetic": False, "recorded": "a small model on a laptop"}
    text = remarks([served(small, "a", 300)], trace=told)
    assert "recorded: requests that were answered by a small model on a laptop" in text
    assert "synthetic" not in text


@pytest.mark.parametrize(
    ("means", "advised", "larger"),
    [
        ([9.0, 5.0, 4.0], "4 GiB", True),
        ([9.0, 4.1, 4.0], "2 GiB", True),
        ([9.0, 4.0, 3.99], "2 GiB", False),
        ([4.0, 5.0, 6.0], "1 GiB", False),
        ([4.0], "1 GiB", True),
    ],
)
def test_the_size_that_is_enough(means: list[float], advised: str, larger: bool) -> None:
    """The smallest within 5 % of the best; "try larger" when the largest is best by over 1 %."""
    sizes = [2**30 * 2**step for step in range(len(means))]
    table = pd.DataFrame({"capacity_bytes": sizes, "policy": "lru", "ttft_mean_s": means})
    said = sentences.size_advice(table, "dram")
    assert said.startswith(f"{advised} of dram with lru is within 5%")
    assert ("try larger" in said) == larger


def test_no_size_is_advised_without_latencies() -> None:
    """Nobody served at any size: a sentence, no traceback."""
    table = pd.DataFrame({"capacity_bytes": [1], "policy": "lru", "ttft_mean_s": [float("nan")]})
    assert "no size can be recommended" in sentences.size_advice(table, "dram")
