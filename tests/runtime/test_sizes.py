"""Size classes: they hold what they are for, are few, and waste little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiermem.runtime.sizes import GRANULE_BYTES, charged_bytes


def test_by_hand() -> None:
    """Whole granules up to eight, then eight classes in every doubling."""
    granules = [1, 1, 1, 2, 8, 9, 16, 18, 18, 32, 36]
    sizes = [0, 1, 4096, 4097, 8 * 4096, 8 * 4096 + 1, 16 * 4096, 16 * 4096 + 1, 18 * 4096]
    sizes += [31 * 4096, 32 * 4096 + 1]
    assert [charged_bytes(size) // GRANULE_BYTES for size in sizes] == granules
    assert len({charged_bytes(n * 4096) for n in range(1, 4097)}) == 8 + 8 * 9


@given(st.integers(0, 2**42))
def test_a_class_holds_its_blocks(nbytes: int) -> None:
    """Whole granules, at most an eighth wasted beyond eight of them, and a fixed point."""
    charged = charged_bytes(nbytes)
    assert charged >= nbytes
    assert charged % GRANULE_BYTES == 0
    assert charged_bytes(charged) == charged
    if nbytes > 8 * GRANULE_BYTES:
        assert charged - nbytes < nbytes / 8 + GRANULE_BYTES
