"""One slot: a header that describes its block, then the block, rounded up to whole pages.

    0              header_bytes                                 slot_bytes
    | header page(s) | unit 0 | unit 1 | ... | zeros to a page | room of the class |

The header is a function of what it describes, checksums of all units included. So a reader that
has the bytes and the index makes the header again and compares: whatever changed, it differs.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

import xxhash

from tiermem.runtime.io.seam import PIECE_BYTES
from tiermem.runtime.sizes import GRANULE_BYTES, charged_bytes

MAGIC = b"tm-slot\n"
VERSION = 1
KEY_BYTES = 16
SUM_BYTES = 8
"""xxh3-64: of each unit, and of the header itself at its end."""

_FIELDS = struct.Struct("<8sII16s16sQQQQII")
_SUMMED_BYTES = 1 << 20  # a unit is at least this long where the header has to count them


class Header(NamedTuple):
    """What a slot says of itself."""

    store: bytes  # fingerprint of what the blocks mean
    key: bytes
    nbytes: int  # true length of the block
    sequence: int  # newer writes have larger ones
    slot_bytes: int
    number: int  # of the slot in its segment: a slot copied elsewhere is none
    keep: bool  # serve it after a restart too


def padded_bytes(nbytes: int) -> int:
    """`nbytes` in whole pages: what is written, read and summed."""
    return -(-nbytes // GRANULE_BYTES) * GRANULE_BYTES


@lru_cache(maxsize=4096)
def header_bytes(nbytes: int) -> int:
    """Bytes of the header of a block of `nbytes`: one page up to about 490 MiB."""
    most = -(-charged_bytes(nbytes) // _SUMMED_BYTES)
    return padded_bytes(_FIELDS.size + (most + 1) * SUM_BYTES)


@lru_cache(maxsize=4096)
def slot_bytes(nbytes: int) -> int:
    """Bytes of the slots that blocks of `nbytes` go to."""
    return header_bytes(nbytes) + charged_bytes(nbytes)


def header_bytes_of(size: int) -> int:
    """The part of a slot of `size` bytes that is its header."""
    header = GRANULE_BYTES
    while header < size and header_bytes(size - header) > header:
        header += GRANULE_BYTES
    return header


@lru_cache(maxsize=4096)
def unit_bytes(nbytes: int) -> int:
    """A block is summed and moved in units of this size, about even ones, at most a piece each.

    The first unit travels with the header, so both together are at most a piece.
    """
    padded = padded_bytes(nbytes)
    units = -(-padded // (PIECE_BYTES - header_bytes(nbytes))) or 1
    return padded_bytes(-(-padded // units)) or GRANULE_BYTES


def pack(header: Header, sums: bytes) -> bytes:
    """The header page(s) of a block whose units have these checksums."""
    fields = _FIELDS.pack(
        MAGIC,
        VERSION,
        int(header.keep),
        header.store,
        header.key,
        header.nbytes,
        header.sequence,
        header.slot_bytes,
        header.number,
        unit_bytes(header.nbytes),
        len(sums) // SUM_BYTES,
    )
    body = (fields + sums).ljust(header_bytes(header.nbytes) - SUM_BYTES, b"\0")
    return body + bytes(xxhash.xxh3_64_digest(body))


def parse(page: bytes) -> Header | str:
    """What the header in the first bytes of `page` says; a line for a person if it is none."""
    magic, version, keep, store, key, nbytes, sequence, slot, number, unit, units = (
        _FIELDS.unpack_from(page)
    )
    if magic != MAGIC:
        return "no header"
    if version != VERSION:
        return f"a header of version {version}, not {VERSION}"
    size = header_bytes(nbytes) if nbytes < 1 << 62 else 0
    body = page[: size - SUM_BYTES]
    if not SUM_BYTES < size <= len(page) or xxhash.xxh3_64_digest(body) != page[len(body) : size]:
        return "a damaged header"
    if (slot, unit) != (slot_bytes(nbytes), unit_bytes(nbytes)):
        return "a header of another layout"
    assert units * SUM_BYTES < size
    return Header(store, key, nbytes, sequence, slot, number, bool(keep))
