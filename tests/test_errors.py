"""Errors: one line each, with the place, and an exit status."""

from __future__ import annotations

import pytest

from tiermem.errors import (
    AllRejected,
    DoesNotFit,
    InputError,
    RunFolderNotEmpty,
    TiermemError,
    Undrawn,
    Unfinished,
    UnknownName,
    nearest,
)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ({}, "wrong"),
        ({"path": "a.toml"}, "a.toml: wrong"),
        ({"path": "a.toml", "line": 3}, "a.toml:3: wrong"),
        ({"path": "a.toml", "line": 3, "key": "tier"}, "a.toml:3: tier: wrong"),
        ({"line": 3}, "line 3: wrong"),
        ({"key": "--capacity"}, "--capacity: wrong"),
    ],
)
def test_the_place_comes_first(place: dict[str, object], line: str) -> None:
    """An input error starts with file, line and key, as far as they are known."""
    assert str(InputError("wrong", **place)) == line  # type: ignore[arg-type]


def test_a_message_is_one_line() -> None:
    """Whatever text the user gave, the error stays on one line."""
    assert str(InputError("a\nb\r\n  c\td", key="x\ny")) == "x y: a b c d"
    assert "\n" not in str(UnknownName("policy", "l\nru", ["lru"]))


def test_the_nearest_name_is_offered() -> None:
    """A misspelt name gets the nearest one; a strange one gets the list."""
    error = UnknownName("policy", "lruu", ["fifo", "lru"], path="x.toml", line=2)
    assert str(error) == "x.toml:2: unknown policy 'lruu'; did you mean 'lru'?"
    assert error.nearest == "lru"
    assert str(UnknownName("policy", "zzz", ["lru", "fifo"])).endswith("known: fifo, lru")
    assert str(UnknownName("policy", "zzz", [])).endswith("known: none")
    error = UnknownName("tier", "drm", ["dram"], key="capacities")
    assert str(error) == "capacities: unknown tier 'drm'; did you mean 'dram'?"


def test_case_hides_no_name() -> None:
    """The nearest name is found whatever the case, and given as it is written."""
    assert UnknownName("policy", "LRU", ["lru", "fifo"]).nearest == "lru"
    assert nearest("TIMESTAMP", ["Timestamp", "x"]) == "Timestamp"
    assert nearest("q", ["timestamp"]) is None


def test_exit_statuses() -> None:
    """Unfinished requests exit with 3, every other mistake with 1, and all are TiermemErrors."""
    for kind in (InputError, DoesNotFit, RunFolderNotEmpty, AllRejected, Undrawn, TiermemError):
        assert kind("x").exit_status == 1
        assert isinstance(kind("x"), TiermemError)
    assert Undrawn("x", 130).exit_status == 130
    assert Unfinished("x").exit_status == 3
    assert isinstance(Unfinished("x"), TiermemError)
