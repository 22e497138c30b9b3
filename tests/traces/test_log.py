"""The log writes down what events and actions say, once, in columns; the tape keeps them whole."""

from __future__ import annotations

from typing import Any

import pytest

from tiermem.core.messages import (
    Acquire,
    Begin,
    Commit,
    Done,
    Drop,
    Emit,
    Move,
    Ready,
    Reject,
    Run,
    Submit,
    Wake,
)
from tiermem.core.table import BlockTable
from tiermem.models.operators import Step
from tiermem.traces.log import CAUSES, COLUMNS, DROPS, Log, Tape


@pytest.fixture
def table() -> BlockTable:
    return BlockTable({"hbm": 100, "dram": 100})


@pytest.fixture
def log(table: BlockTable) -> Log:
    return Log(table.rooms)


def rows(log: Log, kind: str) -> list[dict[str, Any]]:
    columns = log.table(kind)
    assert tuple(columns) == COLUMNS[kind]
    values = zip(*[column.tolist() for column in columns.values()], strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def test_a_request_from_end_to_end(log: Log) -> None:
    """Submitted, begun with its sources booked, answered twice: one row for each."""
    log(5, Submit(0, 3, 25, 4, (1, 2, 3)), [Begin(0, (("dram", 20), ("recompute", 5)), 2)])
    log(100, Done(1), [Emit(0, 1)])
    log(400, Done(2), [Emit(0, 3)])
    assert rows(log, "submit") == [
        {"request": 0, "arrival_ns": 3, "prompt_tokens": 25, "output_tokens": 4}
    ]
    assert rows(log, "begin") == [{"request": 0, "now_ns": 5, "hit_blocks": 2}]
    named = [(log.sources[row["source"]], row["tokens"]) for row in rows(log, "source")]
    assert named == [("dram", 20), ("recompute", 5)]
    assert [(row["now_ns"], row["tokens"]) for row in rows(log, "emit")] == [(100, 1), (400, 3)]


def test_a_move_has_two_ends(log: Log) -> None:
    """Its start with cause, route and size, and its end with the outcome."""
    log(7, Acquire(1, (8, 9), (5, 5), "hbm"), [Move(4, (8, 9), "dram", "hbm", 10, "fetch")])
    log(19, Done(4, False), [])
    [move] = rows(log, "move")
    assert (CAUSES[move["cause"]], log.sources[move["source"]], log.sources[move["target"]]) == (
        *("fetch", "dram"),
        "hbm",
    )
    assert (move["move"], move["blocks"], move["bytes"], move["start_ns"]) == (4, 2, 10, 7)
    assert rows(log, "moved") == [{"move": 4, "ok": 0, "now_ns": 19}]


def test_a_run_has_two_ends(log: Log) -> None:
    """What was started, and how many passes were made when it ended."""
    log(7, Done(1), [Run(5, Step(3, 300, ((40, 0), (2, 9))), "hbm")])
    log(99, Done(5, True, 1), [])
    assert rows(log, "run") == [{"run": 5, "start_ns": 7, "decodes": 3, "prefill_tokens": 42}]
    assert rows(log, "ran") == [{"run": 5, "now_ns": 99, "steps": 1}]


@pytest.mark.parametrize("cause", DROPS)
def test_drops_by_cause(log: Log, cause: str) -> None:
    """Every cause that the core knows has a number here."""
    log(7, Commit(1), [Drop((1, 2, 3), "dram", cause)])
    [row] = rows(log, "drop")
    assert (log.sources[row["tier"]], DROPS[row["cause"]]) == ("dram", cause)
    assert (row["blocks"], row["now_ns"]) == (3, 7)


def test_a_rejection_keeps_its_reason(log: Log) -> None:
    """The time in a column, the words beside it."""
    log(7, Submit(0, 7, 25, 4, ()), [Reject(0, "too long")])
    assert rows(log, "reject") == [{"request": 0, "now_ns": 7}]
    assert log.reasons == {0: "too long"}


def test_what_is_of_no_interest_leaves_no_row(log: Log) -> None:
    """Wakes, leases and their answers are between engine and controller."""
    log(1, Acquire(1, (), (), "hbm"), [Ready(1, ()), Wake(3, 9)])
    log(9, Done(3), [])
    assert {kind: rows(log, kind) for kind in COLUMNS if rows(log, kind)} == {}


def test_occupancy_is_written_when_it_changes(log: Log, table: BlockTable) -> None:
    """A row for the start and one for each change, in every tier, at the time of the event."""
    log(0, Commit(1), [])
    table.rooms["hbm"].reserve(30)
    log(5, Commit(1), [])
    log(6, Commit(1), [])
    table.rooms["dram"].reserve(8)
    log(9, Commit(1), [])
    assert log.occupancy().tolist() == [[0, 0, 0], [5, 30, 0], [9, 30, 8]]


def test_an_empty_log_has_its_columns(log: Log) -> None:
    """Fault B34: nothing happened, and every table is there with no rows."""
    for kind, names in COLUMNS.items():
        assert tuple(log.table(kind)) == names
        assert rows(log, kind) == []
    assert log.occupancy().shape == (0, 3)


def test_a_tape_keeps_everything() -> None:
    """INV-10: time, event and actions, as they were, also if the list is changed later."""
    tape, actions = Tape(), [Ready(1, ())]
    tape(4, Acquire(1, (), (), "hbm"), actions)
    actions.clear()
    assert tape.entries == [(4, Acquire(1, (), (), "hbm"), (Ready(1, ()),))]
