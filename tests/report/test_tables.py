"""The tables of a comparison: every number in its place, on a page and in a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from tiermem.report import evidence, folder, metrics, tables

Make = Callable[..., Any]

COLUMNS = ["policy", "capacity_blocks", "order", "references", "block_hits", "prefix_hits"]
NO_HITS = pd.DataFrame(columns=COLUMNS)


def page(runs: list[Any], **more: Any) -> str:
    """table.md of `runs`."""
    results = {"runs": [metrics.results(run) for run in runs], **more}
    return tables.markdown(results, NO_HITS, evidence.weigh(runs, 0))


def served(small: Make, policy: str, ttft_ns: int, **changes: Any) -> Any:
    """A run of one request whose first token took that long."""
    row = {"first_token_ns": ttft_ns, "last_token_ns": ttft_ns, "tokens_recompute": 4}
    return small([row], policy=policy, **changes)


def printed(saved: folder.RunFolder, width: int = 80) -> list[str]:
    """The lines of a terminal that many columns wide."""
    stream = io.StringIO()
    tables.show(saved, Console(file=stream, width=width, color_system=None))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def cells(text: str, policy: str) -> list[list[str]]:
    """The rows of a policy in the tables of a Markdown page."""
    rows = [line for line in text.splitlines() if line.startswith(f"| {policy} |")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_nobody_served_is_said_without_numbers(small: Make) -> None:
    """All rejected: dashes instead of latencies."""
    runs = [small([{"state": "rejected", "tokens_rejected": 5}], policy=name) for name in "ab"]
    text = page(runs)
    assert "No request got a first token" in text
    assert "| a | 0.00 | - | - | - | - | - | - | - | 0.0 |" in text


def test_shares_of_a_row_are_all_tokens(small: Make) -> None:
    """Tokens of rejected and of unserved requests have a column as soon as there are any."""
    hit = {"tokens_hbm": 1, "tokens_recompute": 4, "first_token_ns": 5, "last_token_ns": 5}
    refused = {"state": "rejected", "tokens_rejected": 2}
    left = {"state": "unfinished", "tokens_not_served": 3}
    text = page([small([hit, refused, left])])
    assert "| recompute | tokens rejected | tokens not served |" in text
    where, _ = cells(text, "lru")
    assert where[1:4] == ["1", "1", "1"]
    assert where[4:] == ["10.00", "0.00", "40.00", "20.00", "30.00"]
    assert "tokens rejected" not in page([small([hit])])


def test_the_wait_before_prefill_is_in_the_table(small: Make) -> None:
    """Arrival to admission, its mean in seconds: 1 s and 2 s are 1.5 s."""
    rows = [
        {"admitted_ns": wait * 10**9, "first_token_ns": 3 * 10**9, "last_token_ns": 3 * 10**9}
        for wait in (1, 2)
    ]
    text = page([small(rows)])
    assert "| policy | hit (%) | wait mean (s) | TTFT mean (s) |" in text
    assert cells(text, "lru")[1][2:4] == ["1.5", "3"]


def test_one_tier_has_no_traffic_between_tiers(small: Make) -> None:
    """Bytes written into the only tier are no column."""
    text = page([served(small, "a", 300, tiers=("hbm",))])
    assert "GiB" not in text
    assert "bytes written" not in text


def test_the_tables_fit_a_terminal(tmp_path: Path, large: Make, contents: Make) -> None:
    """Four tiers in 80 columns, every value of results.json in its place."""
    saved = folder.write(tmp_path / "out", contents([large("lru"), large("s3fifo", reuse=0.4)]))
    lines = printed(saved)
    assert max(map(len, lines)) <= 80
    for run in saved.runs:
        (row,) = [row for row in lines if row.split()[:2] == [run["policy"], "800"]]
        shares = run["prompt_token_share_by_source"]
        for name in ("hbm", "nvme", "recompute"):
            assert f"{100 * shares[name]:.2f}" in row.split()


def test_a_long_name_is_a_number_in_the_terminal(
    tmp_path: Path, large: Make, contents: Make
) -> None:
    """A policy spec is never broken: a long one stands once on its own line, with its number."""
    long = ["my_module:MyPolicy:alpha=0.25", "s3fifo:small=0.2:ghost=1"]
    saved = folder.write(tmp_path / "out", contents([large(name) for name in ("lru", *long)]))
    lines = printed(saved)
    assert lines[:2] == [f"(1) {long[0]}", f"(2) {long[1]}"]
    first = [line.split()[0] for line in lines if line.startswith((" lru ", " (1) ", " (2) "))]
    assert first == ["lru", "(1)", "(2)"] * 2
    assert max(map(len, lines)) <= 80


def test_a_policy_name_cannot_break_the_markdown_table(small: Make) -> None:
    """A bar in a label is escaped, so each row keeps its number of cells."""
    text = page([served(small, "a|b", 300)])
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows[:3]} == {rows[0].count("|")}
    assert "a\\|b" in text


@pytest.mark.parametrize("synthetic", [True, False])
def test_the_subject_says_whether_the_trace_is_recorded(synthetic: bool) -> None:
    """The word stands in the line that heads every table and figure."""
    results: dict[str, dict[str, Any]] = {
        "trace": {"name": "t", "synthetic": synthetic},
        "system": {"name": "s"},
        "llm": {"name": "m"},
    }
    assert ("synthetic" in tables.subject(results)) is synthetic
    assert tables.subject(results).startswith("m on s")
    results["trace"]["recorded"] = "somebody"
    assert ("recorded trace t" in tables.subject(results)) is not synthetic


def test_any_table_is_markdown() -> None:
    """Fractions are shortened, whole numbers are not, and what is undefined is a dash."""
    frame = pd.DataFrame({"bytes": [123_456_789], "share": [0.123456], "ttft_s": [float("nan")]})
    assert tables.plain(frame).splitlines() == [
        "| bytes | share | ttft_s |",
        "| ---: | ---: | ---: |",
        "| 123456789 | 0.1235 | - |",
    ]
