"""One byte per slot: whether its block is durable and still wanted.

Marks are plain writes to the page cache, next to the slots. They outlive kill -9 there; whether
they outlived a power cut nobody knows, so they carry the name of the boot in which they were made,
and in another one they are not believed.

Not a memory map: a file that somebody cuts short would end the process there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tiermem.runtime.file.head import HEAD_BYTES, MARKS_HEADER_BYTES


def boot_name() -> bytes:
    """What tells this boot of the machine from all others; empty where nothing does."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return b""
    return text.encode()[:MARKS_HEADER_BYTES]


class Marks:
    """The marks of one segment. Every method may raise OSError."""

    def __init__(self, fd: int, slots: int, boot: bytes) -> None:
        self._fd = fd
        self._boot = boot
        self._marks = bytearray(slots)

    def load(self) -> bool:
        """Read them; False when they are not of this boot, and then none is set."""
        page = os.pread(self._fd, MARKS_HEADER_BYTES + len(self._marks), HEAD_BYTES)
        name, marks = page[:MARKS_HEADER_BYTES].rstrip(b"\0"), page[MARKS_HEADER_BYTES:]
        believed = bool(self._boot) and name == self._boot and len(marks) == len(self._marks)
        self._marks[:] = marks if believed else bytes(len(self._marks))
        return believed

    def reset(self, numbers: Iterable[int] = ()) -> None:
        """Set exactly these. The name of the boot goes first and comes back last, so that a kill
        in between leaves marks that are not believed."""
        self._marks[:] = bytes(len(self._marks))
        for number in numbers:
            self._marks[number] = 1
        _write(self._fd, bytes(MARKS_HEADER_BYTES), HEAD_BYTES)
        _write(self._fd, self._marks, HEAD_BYTES + MARKS_HEADER_BYTES)
        _write(self._fd, self._boot.ljust(MARKS_HEADER_BYTES, b"\0"), HEAD_BYTES)

    def put(self, numbers: Sequence[int], marked: bool) -> None:
        """Set or clear these, with one write over their range."""
        for number in numbers:
            self._marks[number] = marked
        first, end = min(numbers), max(numbers) + 1
        _write(self._fd, self._marks[first:end], HEAD_BYTES + MARKS_HEADER_BYTES + first)

    def numbers(self) -> list[int]:
        """Those that are set."""
        return [number for number, marked in enumerate(self._marks) if marked]


def _write(fd: int, content: bytes | bytearray, offset: int) -> None:
    done = os.pwrite(fd, content, offset)
    if done != len(content):
        raise OSError(f"{done} of {len(content)} bytes of marks written")
