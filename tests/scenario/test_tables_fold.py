"""Folds of a log written by hand: each number of the tables can be read off the events."""

from __future__ import annotations

import pandas as pd
import pytest

from tiermem.core.messages import (
    Acquire,
    Begin,
    Commit,
    Done,
    Drop,
    Emit,
    Move,
    Reject,
    Run,
    Submit,
)
from tiermem.core.table import BlockTable
from tiermem.models.operators import Step
from tiermem.scenario.tables import (
    counters,
    moves_table,
    occupancy_table,
    requests_table,
    steps_table,
)
from tiermem.traces.log import DROPS, Log

TIERS = ("hbm", "dram")


@pytest.fixture
def log() -> Log:
    """Four requests: one served from DRAM, one rejected, one cut off, one that never began."""
    table = BlockTable(dict.fromkeys(TIERS, 1000))
    made = Log(table.rooms)
    for request, (at, prompt, output) in enumerate(
        [(0, 25, 3), (5, 90, 4), (6, 40, 9), (7, 30, 1)]
    ):
        made(at, Submit(request, at, prompt, output, ()), [])
    table.rooms["dram"].reserve(20)
    made(8, Commit(9), [Reject(1, "too long"), Move(1, (1, 2), "dram", "hbm", 20, "fetch")])
    table.rooms["hbm"].reserve(25)
    sources = (("dram", 20), ("recompute", 5))
    made(30, Done(1), [Begin(0, sources, 2), Run(2, Step(0, 0, ((5, 20),)), "hbm")])
    made(50, Done(2, True, 1), [Emit(0, 1), Run(3, Step(1, 25, (), 2), "hbm")])
    made(90, Done(3, True, 2), [Emit(0, 2), Begin(2, (("recompute", 40),), 0)])
    made(91, Acquire(3, (), (), "hbm"), [Run(4, Step(0, 0, ((40, 0),)), "hbm")])
    made(95, Done(4, True, 1), [Emit(2, 1), Drop((5, 6, 7), "dram", "evict")])
    made(96, Commit(9), [Move(5, (8,), "hbm", "dram", 10, "demote"), Drop((4,), "hbm", "clean")])
    return made


def test_requests(log: Log) -> None:
    """State, times and sources of each request; what never happened is missing, not zero."""
    rows = requests_table(log, TIERS)
    assert rows["state"].tolist() == ["completed", "rejected", "unfinished", "unfinished"]
    first = rows.iloc[0]
    assert (first["arrival_ns"], first["admitted_ns"]) == (0, 30)
    assert (first["first_token_ns"], first["last_token_ns"]) == (50, 90)
    assert rows["prefix_hit_blocks"].tolist() == [2, 0, 0, 0]
    sources = ["dram", "hbm", "recompute", "rejected", "not_served"]
    booked = rows[[f"tokens_{source}" for source in sources]].to_numpy().tolist()
    assert booked == [[20, 0, 5, 0, 0], [0, 0, 0, 90, 0], [0, 0, 40, 0, 0], [0, 0, 0, 0, 30]]
    assert rows["first_token_ns"].isna().tolist() == [False, True, False, True]
    assert rows["last_token_ns"].isna().tolist() == [False, True, True, True]
    assert rows["admitted_ns"].isna().tolist() == [False, True, False, True]


def test_the_types_of_the_columns(log: Log) -> None:
    """Whole numbers stay whole: times that may be missing are pandas Int64, the rest int64."""
    rows = requests_table(log, TIERS)
    nullable = {"admitted_ns", "first_token_ns", "last_token_ns"}
    assert {str(rows[name].dtype) for name in nullable} == {"Int64"}
    rest = set(rows.columns) - nullable - {"state"}
    assert {str(rows[name].dtype) for name in rest} == {"int64"}


def test_moves(log: Log) -> None:
    """One row each, in the order they started; one that is under way has no end (-1)."""
    rows = moves_table(log)
    assert list(rows.itertuples(index=False, name=None)) == [
        (1, "fetch", "dram", "hbm", 2, 20, 8, 30),
        (5, "demote", "hbm", "dram", 1, 10, 96, -1),
    ]


def test_occupancy(log: Log) -> None:
    """The bytes of each tier from each change on."""
    rows = occupancy_table(log, TIERS)
    assert rows.to_numpy().tolist() == [[0, 0, 0], [8, 0, 20], [30, 25, 20]]
    assert list(rows.columns) == ["time_ns", *TIERS]


def test_steps(log: Log) -> None:
    """One row for each run that ended: when, how many passes, of what."""
    rows = steps_table(log)
    assert list(rows.itertuples(index=False, name=None)) == [
        (30, 50, 1, 0, 5),
        (50, 90, 2, 1, 0),
        (91, 95, 1, 0, 40),
    ]


def test_counters(log: Log) -> None:
    """Fault 143: "demoted" and "dropped" are different counters, by tier and cause, in blocks."""
    counts = counters(log, TIERS, 17)
    assert counts["events"] == 17
    assert {name: n for name, n in counts.items() if n and name != "events"} == {
        "dropped_evict_dram_blocks": 3,
        "dropped_clean_hbm_blocks": 1,
        "demoted_hbm_blocks": 1,
    }
    names = {f"dropped_{cause}_{tier}_blocks" for cause in DROPS for tier in TIERS}
    assert names < set(counts)


def test_an_empty_log_has_all_tables() -> None:
    """Fault B34: nothing happened, and every column is there."""
    log = Log(BlockTable(dict.fromkeys(TIERS, 1000)).rooms)
    for rows in (requests_table(log, TIERS), moves_table(log), steps_table(log)):
        assert isinstance(rows, pd.DataFrame)
        assert len(rows) == 0
        assert len(rows.columns) >= 5
