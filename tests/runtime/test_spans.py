"""The allocator against a bytearray, and what it costs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.runtime.sizes import GRANULE_BYTES as G
from tiermem.runtime.sizes import charged_bytes
from tiermem.runtime.spans import Spans
from tiermem.runtime.stores import Extent, Span

CAPACITY = 64
# Numbers from 1 up ask for so many granules, those below 0 give back the n-th that is held.
HISTORIES = st.lists(st.integers(-40, 24).filter(bool), max_size=120)


def runs_of(model: bytearray) -> list[tuple[int, int]]:
    """(first granule, length) of each run of zeros."""
    runs, start = [], None
    for at, value in enumerate([*model, 1]):
        if not value and start is None:
            start = at
        elif value and start is not None:
            runs.append((start, at - start))
            start = None
    return runs


def paint(model: bytearray, extent: Extent, value: int) -> None:
    for offset, nbytes in extent:
        for granule in range(offset // G, (offset + nbytes) // G):
            assert model[granule] != value
            model[granule] = value


@settings(max_examples=150, deadline=None)
@given(HISTORIES)
def test_agrees_with_a_bytearray(history: list[int]) -> None:
    """First fit where a run is long enough; otherwise long runs first (an eighth off the longest at
    most); None only without room; the free runs are those of the model after every step."""
    spans, model = Spans(CAPACITY * G), bytearray(CAPACITY)
    held: list[Extent] = []
    for step in history:
        runs = runs_of(model)
        if step < 0:
            if held:
                extent = held.pop(-step % len(held))
                paint(model, extent, 0)
                spans.free(extent)
        else:
            got = spans.allocate(step * G)
            assert (got is None) == (step > model.count(0))
            if got is not None:
                fitting = [start for start, length in runs if length >= step]
                if fitting:
                    assert got == (Span(fitting[0] * G, step * G),)
                else:
                    assert got[0].nbytes * 9 >= max(length for _, length in runs) * G * 8
                    assert sum(span.nbytes for span in got) == step * G
                paint(model, got, 1)
                held.append(got)
        assert [(at // G, size // G) for at, size in spans.runs()] == runs_of(model)
        assert spans.used_bytes == model.count(1) * G
        assert spans.free_bytes == model.count(0) * G
        assert spans.allocate(spans.free_bytes + 1) is None


def test_takes_back_only_what_it_gave() -> None:
    """Freeing twice, or a part, is a mistake of ours and is noticed."""
    spans = Spans(8 * G)
    extent = spans.allocate(2 * G)
    assert extent == (Span(0, 2 * G),)
    with pytest.raises(AssertionError, match="was not given out"):
        spans.free((Span(0, G),))
    again = Spans(8 * G)
    whole = again.allocate(8 * G)
    assert whole is not None
    again.free(whole)
    with pytest.raises(AssertionError, match="was not given out"):
        again.free(whole)


def test_cost_hardly_grows_with_the_runs() -> None:
    """Fifty thousand free runs, of many lengths, cost a few times what a hundred do."""

    def per_call_s(blocks: int) -> float:
        sizes = [charged_bytes((1 + number * 7919 % 61) * G) for number in range(blocks)]
        spans = Spans(sum(sizes))
        held = [spans.allocate(size) for size in sizes]
        for extent in held[::2]:
            assert extent is not None
            spans.free(extent)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for size in sizes[:200]:
                extent = spans.allocate(size)
                assert extent is not None
                spans.free(extent)
            best = min(best, (time.perf_counter() - start) / 200)
        return best

    assert per_call_s(100_000) < 20 * per_call_s(200)
