"""The layout of a slot: sizes, units, and a header that notices any change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.slot import Header
from tiermem.runtime.io.seam import PIECE_BYTES
from tiermem.runtime.sizes import charged_bytes

SIZES = st.one_of(st.integers(0, 1 << 16), st.integers(0, 1 << 33))


def header(nbytes: int = 5000) -> Header:
    return Header(b"s" * 16, b"k" * 16, nbytes, 7, layout.slot_bytes(nbytes), 3, True)


@given(SIZES)
def test_a_block_fits_its_slot_in_pieces(nbytes: int) -> None:
    """Header and block in whole pages; the first unit and the header are one piece at most; the
    checksums of all units fit the header."""
    unit, head = layout.unit_bytes(nbytes), layout.header_bytes(nbytes)
    assert unit % 4096 == head % 4096 == layout.slot_bytes(nbytes) % 4096 == 0
    assert unit + head <= PIECE_BYTES
    units = max(1, -(-nbytes // unit))
    assert len(layout.pack(header(nbytes), b"x" * 8 * units)) == head
    assert layout.slot_bytes(nbytes) == head + charged_bytes(nbytes)
    assert layout.padded_bytes(nbytes) <= charged_bytes(nbytes)
    assert layout.header_bytes_of(layout.slot_bytes(nbytes)) == head


def test_units_of_large_blocks_are_large() -> None:
    """2 MiB go in two pieces of a MiB, 32 MiB in pieces of almost two: none is a crumb."""
    assert layout.unit_bytes(2 << 20) == 1 << 20
    assert layout.unit_bytes(32 << 20) > 1900 << 10
    assert layout.unit_bytes(0) == 4096


def test_a_header_says_what_was_put_in() -> None:
    """Packed and parsed again."""
    assert layout.parse(layout.pack(header(), b"12345678")) == header()
    big = header(600 << 20)
    sums = b"x" * 8 * -(-big.nbytes // layout.unit_bytes(big.nbytes))
    assert layout.parse(layout.pack(big, sums)) == big


@pytest.mark.parametrize(
    ("field", "value"), [("nbytes", 5001), ("sequence", 8), ("number", 4), ("keep", False)]
)
def test_every_field_counts(field: str, value: object) -> None:
    """Another header is another page."""
    sums = b"12345678"
    other = header()._replace(**{field: value})
    assert layout.pack(other, sums) != layout.pack(header(), sums)


def test_any_flipped_byte_is_noticed() -> None:
    """Of the whole page, fields, checksums and padding."""
    page = bytearray(layout.pack(header(), b"12345678"))
    for at in range(len(page)):
        page[at] ^= 0x10
        assert isinstance(layout.parse(bytes(page)), str), at
        page[at] ^= 0x10


def test_other_pages_are_no_headers() -> None:
    """Zeros, another version, another layout: each says so."""
    assert layout.parse(bytes(4096)) == "no header"
    old = bytearray(layout.pack(header(), b"12345678"))
    old[8] = 9
    assert "version 9" in str(layout.parse(bytes(old)))
    moved = header()._replace(slot_bytes=12288 + 4096)
    assert layout.parse(layout.pack(moved, b"12345678")) == "a header of another layout"
