"""The comparison in words: who wins, by how much, and when that means nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from tiermem.report import folder, metrics, tables

Make = Callable[..., Any]

COLUMNS = ["policy", "capacity_blocks", "order", "references", "block_hits", "prefix_hits"]
NO_HITS = pd.DataFrame(columns=COLUMNS)


def remarks(runs: list[Any], **more: Any) -> str:
    """What is said about `runs`, as one text."""
    results = {"runs": [metrics.results(run) for run in runs], **more}
    return "\n".join(tables.remarks(results, NO_HITS))


def served(small: Make, policy: str, ttft_ns: int, **changes: Any) -> Any:
    """A run of one request whose first token took that long."""
    row = {"first_token_ns": ttft_ns, "last_token_ns": ttft_ns, "tokens_recompute": 4}
    return small([row], policy=policy, **changes)


def test_the_winner_has_the_lowest_mean_ttft(small: Make) -> None:
    """The order of the policies does not matter; the margin is that of the next ones."""
    runs = [served(small, "a", 300), served(small, "b", 200), served(small, "c", 250)]
    assert "b has the lowest mean TTFT" in remarks(runs)
    assert "c takes 25.00% longer, a 50.00%" in remarks(runs)


def test_equal_policies_are_called_equal(small: Make) -> None:
    """No winner is named where there is no difference, or one below the stated margin."""
    assert "No difference" in remarks([served(small, "a", 300), served(small, "b", 300)])
    close = remarks([served(small, "a", 100_000), served(small, "b", 100_500)])
    assert "no difference to build on" in close


def test_policies_that_never_had_to_choose_are_not_told_apart(small: Make) -> None:
    """Fault 63: when no tier gave anything up, and which tiers were never used."""
    idle = [served(small, "a", 300), served(small, "b", 300)]
    assert "No tier ever filled" in remarks(idle)
    assert "Never used: hbm, nvme." in remarks(idle)
    busy = [served(small, "a", 300, counters={"dropped_evict_hbm_blocks": 1})]
    assert "No tier ever filled" not in remarks(busy)
    forgot = [served(small, "a", 300, counters={"dropped_forget_hbm_blocks": 1})]
    assert "No tier ever filled" in remarks(forgot)


def test_the_belady_gap_has_its_sign() -> None:
    """Fault 144: LRU 10, Belady 30: 15 hits are +25 %, 5 hits are -25 %, at the widest place."""
    counts = {"lru": 10, "good": 15, "bad": 5, "belady": 30}
    rows = [(name, 100, "reverse", 50, n, n) for name, n in counts.items()]
    rows += [(name, 200, "reverse", 50, 40, 40) for name in counts]
    rows += [("lru", 100, "forward", 50, 2, 1)]
    (line,) = tables.belady_gap(pd.DataFrame(rows, columns=COLUMNS))
    assert "at 100 blocks (20 hits" in line
    assert line.endswith(": good +25.0%, bad -25.0%.")


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


def test_nobody_served_is_said_without_numbers(small: Make) -> None:
    """All rejected: no winner, dashes instead of latencies."""
    runs = [small([{"state": "rejected", "tokens_rejected": 5}], policy=name) for name in "ab"]
    assert "No request got a first token" in remarks(runs)
    results = {"runs": [metrics.results(run) for run in runs]}
    page = tables.markdown(results, NO_HITS)
    assert "| a | 0.00 | - | - | - | - | - | - | 0.0 |" in page


def test_the_tables_fit_a_terminal(tmp_path: Path, large: Make, contents: Make) -> None:
    """Four tiers in 80 columns, every value of results.json in its place."""
    saved = folder.write(tmp_path / "out", contents([large("lru"), large("s3fifo", reuse=0.4)]))
    stream = io.StringIO()
    tables.show(saved, Console(file=stream, width=80, color_system=None))
    text = stream.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    for run in saved.runs:
        (row,) = [row for row in text.splitlines() if row.split()[:2] == [run["policy"], "800"]]
        shares = run["prompt_token_share_by_source"]
        for name in ("hbm", "nvme", "recompute"):
            assert f"{100 * shares[name]:.2f}" in row.split()


def test_a_policy_name_cannot_break_the_markdown_table(small: Make) -> None:
    """A bar in a label is escaped, so each row keeps its number of cells."""
    results = {"runs": [metrics.results(served(small, "a|b", 300))]}
    page = tables.markdown(results, NO_HITS)
    rows = [line.replace("\\|", "") for line in page.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows[:3]} == {rows[0].count("|")}
    assert "a\\|b" in page


@pytest.mark.parametrize("synthetic", [True, False])
def test_the_subject_says_whether_the_trace_is_recorded(synthetic: bool) -> None:
    """The word stands in the line that heads every table and figure."""
    results = {
        "trace": {"name": "t", "synthetic": synthetic},
        "system": {"name": "s"},
        "llm": {"name": "m"},
    }
    assert ("synthetic" in tables.subject(results)) is synthetic
    assert tables.subject(results).startswith("m on s")


def test_any_table_is_markdown() -> None:
    """Fractions are shortened, whole numbers are not, and what is undefined is a dash."""
    frame = pd.DataFrame({"bytes": [123_456_789], "share": [0.123456], "ttft_s": [float("nan")]})
    assert tables.plain(frame).splitlines() == [
        "| bytes | share | ttft_s |",
        "| ---: | ---: | ---: |",
        "| 123456789 | 0.1235 | - |",
    ]
