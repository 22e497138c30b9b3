"""The Trace value: identity of ids, invariants, slices, digest."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.traces.trace import Trace, intern, renumber, take

Make = Callable[..., Trace]
Rows = list[dict[str, Any]]


def test_ids_are_names_of_exact_identity() -> None:
    """Ids that agree in 32, 53 or 64 bits, or as text, stay different blocks."""
    ids = [7, 7 + 2**32, 2**53, 2**53 + 1, 72057594038135102, 72057594038135103]
    ids += [2**63, 2**64, 2**64 + 1, -(2**70), 10**400]
    names: list[int | str] = [*ids, *map(str, ids)]
    assert intern(names).tolist() == list(range(22))
    assert intern([*names, *reversed(names)]).tolist() == [*range(22), *range(21, -1, -1)]


@given(st.lists(st.integers(0, 6)))
def test_numbering_by_array_equals_numbering_by_dict(ids: list[int]) -> None:
    """`renumber` is `intern` for integer arrays."""
    assert renumber(np.array(ids, dtype=np.int64)).tolist() == intern(ids).tolist()


def test_what_a_trace_tells_of_itself(make: Make, rows: Rows) -> None:
    """Counts and slices of the five requests, by hand."""
    trace = make(rows)
    assert len(trace) == 5
    assert trace.references == 12
    assert trace.unique_blocks == 6
    assert trace.largest_request_blocks == 4
    assert trace.duration_ns == 8_001_000_000
    assert [trace.blocks_of(i).tolist() for i in range(5)] == [
        [0, 1, 2],
        [0, 3],
        [0, 1, 4, 5],
        [0, 1, 2],
        [],
    ]


def test_arrays_cannot_be_written(make: Make, rows: Rows) -> None:
    """A trace is a value: its arrays are read-only and its fields frozen."""
    trace = make(rows)
    for array in (trace.arrival_ns, trace.block_ids, trace.blocks_of(1)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.name = "other"  # type: ignore[misc]


def test_head_is_the_beginning(make: Make, rows: Rows) -> None:
    """The first n requests are a trace of their own, equal to one made of n rows."""
    trace = make(rows)
    for n in range(1, 6):
        assert trace.head(n).digest == make(rows[:n]).digest
    for n in (0, -1, 6):
        with pytest.raises(InputError, match="the trace 'made' has 5"):
            trace.head(n)


def test_stretching_scales_time_alone(make: Make, rows: Rows) -> None:
    """Arrival times are multiplied, exactly for whole factors, and nothing else changes."""
    trace = make(rows)
    twice = trace.stretched(2)
    assert twice.arrival_ns.tolist() == [0, 0, 7_000_000_000, 16_000_000_000, 16_002_000_000]
    assert twice.block_ids is trace.block_ids
    assert twice.stretched(0.5).digest == trace.digest != twice.digest
    assert twice.stretched(0.25).meta["stretched"] == 0.5
    for factor in (0, -1.0, float("nan"), float("inf"), 1e300):
        with pytest.raises(InputError, match="multiplied"):
            trace.stretched(factor)


def test_digest_is_of_the_content_alone(make: Make, rows: Rows) -> None:
    """Equal content, equal digest, whatever the name; any changed number changes it."""
    trace = make(rows)
    assert make(rows, synthetic=True).digest == trace.digest
    assert dataclasses.replace(trace, name="x", meta={"a": 1}).digest == trace.digest
    digests = {trace.digest}
    for index, key, value in [
        (0, "input_length", 26),
        (0, "output_length", 5),
        (4, "timestamp", 9002),
        (1, "hash_ids", ["a", "b"]),
    ]:
        changed = [dict(each) for each in rows]
        changed[index][key] = value
        digests.add(make(changed).digest)
    assert len(digests) == 5


def test_a_trace_travels_between_processes(make: Make, rows: Rows) -> None:
    """A trace can be pickled, as a sweep over processes does."""
    trace = make(rows)
    again = pickle.loads(pickle.dumps(trace))
    assert (again.digest, again.block_ids.tolist()) == (trace.digest, trace.block_ids.tolist())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arrival_ns", [1, 1, 2, 3, 4]),
        ("arrival_ns", [0, 2, 1, 3, 4]),
        ("prompt_tokens", [0, 20, 38, 25, 9]),
        ("prompt_tokens", [41, 20, 38, 25, 9]),
        ("output_tokens", [4, 4, 4, 4]),
        ("block_ids", [0, 1, 2, 0, 4, 0, 1, 3, 5, 0, 1, 2]),
        ("block_offsets", [0, 3, 5, 9, 12, 11]),
    ],
)
def test_impossible_traces_are_our_mistake(
    make: Make, rows: Rows, field: str, value: list[int]
) -> None:
    """Unsorted times, empty prompts, gaps in the ids and wrong offsets never exist as a Trace."""
    with pytest.raises(AssertionError):
        dataclasses.replace(make(rows), **{field: np.array(value, dtype=np.int64)})  # type: ignore[arg-type]


def test_full_blocks_only_is_legal(make: Make, row: Callable[..., Any]) -> None:
    """floor(prompt / block) ids are as good as ceil: then the tail has no id."""
    trace = make([row(0, 25, [1, 2]), row(1, 30, [1, 2, 3])])
    assert trace.unique_blocks == 3


def test_taking_requests_in_another_order() -> None:
    """`take` moves the ids along with their requests."""
    ids, offsets = take(np.array([5, 6, 7, 8]), np.array([0, 1, 1, 4]), np.array([2, 0, 1]))
    assert ids.tolist() == [6, 7, 8, 5]
    assert offsets.tolist() == [0, 3, 4, 4]
