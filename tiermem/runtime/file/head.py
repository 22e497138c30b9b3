"""The first page of a segment: what kind of slots follow, and what their blocks mean.

    | head page | marks, a byte a slot, whole pages | slot 0 | slot 1 | ...

A slot whose sequence is not above the head's `floor` is none: that is how a cleared segment, or one
that was cut into other slots, forgets what still lies in it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import xxhash

from tiermem.runtime.file.slot import padded_bytes

MAGIC = b"tm-slab\n"
VERSION = 1
HEAD_BYTES = 4096
MARKS_HEADER_BYTES = 64
TEXT_BYTES = 3800
"""As much of an identity is kept as fits; longer ones differ by their fingerprint alone."""

EMPTY = "empty"

_FIELDS = struct.Struct("<8sIIQQQ16sI")
_SUM_BYTES = 8


class Head(NamedTuple):
    """What a segment says of itself."""

    slot_bytes: int
    slots: int  # planned; the file grows towards them
    floor: int
    store: bytes
    identity: str  # for people; `store` decides

    @property
    def start(self) -> int:
        """Where the first slot is."""
        return start_of(self.slots)


def start_of(slots: int) -> int:
    """Where the first of `slots` slots is: after the head and the marks."""
    return HEAD_BYTES + padded_bytes(MARKS_HEADER_BYTES + slots)


def fingerprint(identity: str) -> bytes:
    """16 bytes for what the blocks mean. Never part of a path, so any text will do."""
    return bytes(xxhash.xxh3_128_digest(identity.encode("utf-8", "surrogatepass")))


def pack(head: Head) -> bytes:
    """The page."""
    text = head.identity.encode("utf-8", "replace")[:TEXT_BYTES]
    fields = _FIELDS.pack(
        MAGIC, VERSION, 0, head.slot_bytes, head.slots, head.floor, head.store, len(text)
    )
    body = (fields + text).ljust(HEAD_BYTES - _SUM_BYTES, b"\0")
    return body + bytes(xxhash.xxh3_64_digest(body))


def parse(page: bytes) -> Head | str:
    """What the page says, or why it cannot be used."""
    if not page:
        return EMPTY
    if len(page) < HEAD_BYTES:
        return f"truncated: {len(page):,} bytes"
    magic, version, _, slot_bytes, slots, floor, store, length = _FIELDS.unpack_from(page)
    if magic != MAGIC:
        return "not a segment"
    if version != VERSION:
        return f"version {version}, and this is version {VERSION}"
    body = page[: HEAD_BYTES - _SUM_BYTES]
    if xxhash.xxh3_64_digest(body) != page[len(body) : HEAD_BYTES]:
        return "damaged head"
    text = page[_FIELDS.size : _FIELDS.size + length].decode("utf-8", "replace")
    return Head(slot_bytes, slots, floor, store, text)
