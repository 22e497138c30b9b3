"""Units: GB is 10**9, GiB is 2**30, and what is printed can be parsed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.units import format_bytes, parse_bytes, seconds, transfer_ns


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("64GiB", 68_719_476_736),
        ("64 GiB", 68_719_476_736),
        ("80GB", 80_000_000_000),
        ("3.2 TB", 3_200_000_000_000),
        ("1.5KiB", 1536),
        ("2kB", 2000),
        ("1e3MB", 1_000_000_000),
        ("1024", 1024),
        ("7B", 7),
        (1024, 1024),
    ],
)
def test_sizes_are_read_as_written(text: str | int, nbytes: int) -> None:
    """Decimal and binary prefixes mean what they say."""
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "-1GiB", "0", 0, -5, "0.4B", "1 gib", "64Gib", "64 GiB x", "nan", "inf", "1e999GB"],
)
def test_what_is_no_size_is_refused(text: str | int) -> None:
    """A size that is zero, negative, endless or in an unknown unit is an error that says so."""
    with pytest.raises(InputError, match="--capacity dram: ") as caught:
        parse_bytes(text, key="--capacity dram")
    assert repr(text) in str(caught.value)


def test_booleans_are_no_sizes() -> None:
    """True is not one byte."""
    with pytest.raises(InputError):
        parse_bytes(True)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (68_719_476_736, "64 GiB"),
        (2**50, "1.02e+03 TiB"),
    ],
)
def test_sizes_are_printed_in_binary(nbytes: int, text: str) -> None:
    """Three significant digits and a binary prefix."""
    assert format_bytes(nbytes) == text


@given(st.integers(min_value=1, max_value=2**60))
def test_printing_and_parsing_agree(nbytes: int) -> None:
    """Half a percent is all that printing three digits can lose."""
    assert parse_bytes(format_bytes(nbytes)) == pytest.approx(nbytes, rel=0.0051)


def test_transfer_times_round_up() -> None:
    """A transfer is never faster than its bandwidth: 10 bytes at 3 per second are over 3.33 s."""
    assert transfer_ns(10, 3) == 3_333_333_334
    assert transfer_ns(0, 3) == 0
    assert transfer_ns(64_000_000_000, 64e9) == 1_000_000_000
    assert seconds(1_500_000_000) == 1.5
