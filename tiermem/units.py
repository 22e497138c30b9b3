"""Bytes and nanoseconds: parse what people write, print what people read.

Inside tiermem sizes are integer bytes and times are integer nanoseconds; nothing else crosses
a module boundary.
"""

from __future__ import annotations

import math
import re

from tiermem.errors import InputError

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
BYTES_MAX = 2**62  # exact in tables of int64

_BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str | int, *, key: str | None = None) -> int:
    """`"64GiB"`, `"3.2 TB"` or `1024` as whole bytes, at least 1.

    Decimal and binary prefixes mean what they say: 1 GB = 10**9, 1 GiB = 2**30.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        nbytes = text
    else:
        match = _QUANTITY.fullmatch(str(text))
        if match is None or match[2] not in _BYTES:
            known = ", ".join(unit for unit in _BYTES if unit)
            raise InputError(f"{text!r} is not a size such as 64GiB (units: {known})", key=key)
        value = float(match[1]) * _BYTES[match[2]]
        if not math.isfinite(value):
            raise InputError(f"{text!r} is too large", key=key)
        nbytes = int(value)
    if nbytes < 1:
        raise InputError(f"{text!r} is not a size: it must be at least one byte", key=key)
    if nbytes > BYTES_MAX:
        raise InputError(f"{text!r} is too large: {BYTES_MAX:,} bytes at most", key=key)
    return nbytes


def format_bytes(nbytes: int | float) -> str:
    """Three significant digits with a binary prefix: `64.0 GiB`."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def seconds(ns: int | float) -> float:
    """Nanoseconds as seconds, for reports."""
    return ns / NS_PER_S


def transfer_ns(nbytes: int, bytes_per_s: float) -> int:
    """Whole nanoseconds, rounded up, that `nbytes` take at `bytes_per_s`."""
    return math.ceil(nbytes * NS_PER_S / bytes_per_s)
