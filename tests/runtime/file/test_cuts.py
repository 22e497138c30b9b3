"""Cutting buffers into units: every byte once, in order, copied only where it must be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.runtime.file.cuts import WINDOW_BLOCKS, WINDOW_STAGED_BYTES, Cut, address, cut, windows
from tiermem.runtime.file.slot import unit_bytes
from tiermem.runtime.io.seam import aligned
from tiermem.runtime.stores import Buffer


def units_of(buffers: list[Buffer], nbytes: int) -> Cut:
    shape = cut(buffers, nbytes)
    assert isinstance(shape, Cut)
    return shape


@given(st.lists(st.integers(0, 3_000_000), max_size=4), st.integers(0, 3), st.data())
def test_every_byte_once(sizes: list[int], shift: int, data: st.DataObject) -> None:
    """The units hold the block's bytes in order, each at most a unit, whatever the buffers."""
    memory = np.arange(sum(sizes) + shift, dtype=np.uint32).astype(np.uint8)[shift:]
    edges = np.cumsum([0, *sizes])
    buffers = [memory[a:b] for a, b in pairwise(edges)]
    nbytes = data.draw(st.integers(0, sum(sizes)))
    shape = cut(buffers, nbytes)
    if not isinstance(shape, Cut):
        assert np.array_equal(shape, memory[:nbytes])
        return
    parts = [part for unit in shape.units for part in unit.parts]
    whole = np.concatenate([np.zeros(0, np.uint8), *parts])
    assert np.array_equal(whole, memory[:nbytes])
    assert all(unit.nbytes == sum(map(len, unit.parts)) for unit in shape.units)
    assert all(unit.nbytes == unit_bytes(nbytes) for unit in shape.units[:-1])
    assert len(shape.units) == max(1, -(-nbytes // unit_bytes(nbytes)))


def test_an_aligned_block_of_one_unit_is_its_buffer() -> None:
    """Nothing is made for it, and nothing copied."""
    memory = aligned(1 << 20)
    assert cut([memory[:65536]], 65536) is not None
    assert np.shares_memory(cut([memory[4096:69632]], 65536), memory)  # type: ignore[arg-type]
    assert len(cut([memory], 65536)) == 65536


def test_what_does_not_lie_right_is_staged() -> None:
    """An odd address is; a last page that is not full is not."""
    memory = aligned(8 << 20)
    assert units_of([memory[1:65537]], 65536).staged_bytes == 65536
    assert units_of([memory[:5000]], 5000).staged_bytes == 0
    assert units_of([memory[:4096], memory[8192:12288]], 8192).staged_bytes == 0
    assert units_of([memory[:5000], memory[8192:12288]], 9000).staged_bytes == 9000
    large = units_of([memory[: 4 << 20]], 4 << 20)
    assert large.staged_bytes == 0
    assert all(unit.straight for unit in large.units)


def test_too_short_a_buffer_is_a_mistake() -> None:
    """Of whoever called: said at once."""
    with pytest.raises(AssertionError, match="fewer bytes"):
        cut([np.zeros(10, np.uint8)], 11)
    with pytest.raises(AssertionError, match="fewer bytes"):
        cut([], 1)


def test_windows_bound_the_scratch_memory() -> None:
    """By blocks, and by bytes that are copied."""
    memory = aligned(8192)
    many = [(bytes(16), [memory[:4096]], 4096)] * (WINDOW_BLOCKS + 1)
    assert [len(window) for window in windows(many)] == [WINDOW_BLOCKS, 1]
    odd = np.zeros((WINDOW_STAGED_BYTES // 2) + 1, np.uint8)[1:]
    assert [len(window) for window in windows([(bytes(16), [odd], len(odd))] * 3)] == [2, 1]
    assert list(windows([])) == []
    with pytest.raises(AssertionError, match="16 bytes"):
        list(windows([(b"short", [memory], 1)]))


def test_the_address_is_the_address() -> None:
    """Also of read-only and of empty buffers."""
    memory = aligned(4096)
    frozen = memory[5:10]
    frozen.flags.writeable = False
    for buffer in (memory, memory[7:], frozen, memory[:0]):
        assert address(buffer) == buffer.ctypes.data
