"""File I/O that goes wrong as it was told to: the storage half of the adversary.

    io = FaultyIO(PosixIO(), at(read={0: Trouble.FLIP}, write={3: Trouble.NO_SPACE}))

Whatever stands on the seam (`tiermem.runtime.io.seam`) must answer right over it: each fault a miss
with a counter, never wrong bytes.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from tiermem.runtime.io.pool import overlap
from tiermem.runtime.io.seam import FileIO, IoPath, OpenFile, Piece, fault_of, late, short
from tiermem.runtime.stores import Buffer, Fault


class Trouble(StrEnum):
    """What can be told to go wrong with one piece, or with opening one file."""

    IO = "io"  # EIO
    SHORT = "short"  # half of it is transferred, and the answer says so
    NO_SPACE = "no_space"  # ENOSPC; of writes and of files that are made
    PERMISSION = "permission"  # EACCES
    FLIP = "flip"  # one bit is another, and nobody says so
    HANG = "hang"  # until `release`; a piece that was given up is then done, late


Plan: TypeAlias = Callable[[str, int], Trouble | None]
"""What happens to the operation ("open", "read", "write") of this number, from 0."""


def at(**numbers: Mapping[int, Trouble]) -> Plan:
    """Trouble at certain calls: `at(read={0: Trouble.IO}, write={3: Trouble.SHORT})`."""
    return lambda operation, number: numbers.get(operation, {}).get(number)


def since(number: int, trouble: Trouble, *operations: str) -> Plan:
    """The same trouble from one call on, for ever: `since(10, Trouble.PERMISSION, "write")`."""
    return lambda operation, at: trouble if operation in operations and at >= number else None


def seeded(seed: int, shares: Mapping[Trouble, float], *operations: str) -> Plan:
    """Each trouble at its share of the calls; the same ones for the same seed."""

    def plan(operation: str, number: int) -> Trouble | None:
        if operation not in (operations or ("read", "write")):
            return None
        left = random.Random(f"{seed}/{operation}/{number}").random()
        for trouble, share in shares.items():
            left -= share
            if left < 0:
                return trouble
        return None

    return plan


class FaultyIO:
    """`io`, and what `plan` makes of it. See `FileIO`; `met` counts the trouble by kind."""

    def __init__(self, io: FileIO, plan: Plan) -> None:
        self.path: IoPath = io.path
        self.met: Counter[Trouble] = Counter()
        self._io, self._plan = io, plan
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._hung: list[Piece] = []

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OpenFile:
        """As `io`, or OSError."""
        trouble = self._next("open")
        numbers = {
            Trouble.IO: errno.EIO,
            Trouble.NO_SPACE: errno.ENOSPC,
            Trouble.PERMISSION: errno.EACCES,
        }
        if trouble in numbers:
            raise OSError(numbers[trouble], os.strerror(numbers[trouble]), str(path))
        return self._io.open(path, create=create, read_only=read_only)

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Fault | None]:
        """As `io`, with trouble."""
        end = time.monotonic() + deadline_s
        troubles = [self._next("write" if piece.write else "read") for piece in pieces]
        good = [
            number
            for number, trouble in enumerate(troubles)
            if trouble is None or trouble is Trouble.FLIP
        ]
        wanted = [self._flipped(pieces[number], troubles[number]) for number in good]
        answers: list[Fault | None] = [None] * len(pieces)
        for number, answer in zip(good, self._io.transfer(wanted, deadline_s), strict=True):
            answers[number] = answer
            if answer is None and troubles[number] is Trouble.FLIP and pieces[number].write:
                _flip_in_file(pieces[number])
        for number, trouble in enumerate(troubles):
            if trouble is not None and trouble is not Trouble.FLIP:
                answers[number] = self._trouble(pieces[number], trouble, end)
        return answers

    def release(self) -> None:
        """End every hang, past and future. Pieces that were given up are done now."""
        with self._lock:
            self._released.set()
            hung = list(self._hung)
        # Late, and without their checks: nobody asks for the answer any more.
        self._io.transfer([piece._replace(check=None) for piece in hung], 60)
        with self._lock:
            self._hung.clear()

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """As `io`, or because they hang here."""
        with self._lock:
            hung = list(self._hung)
        return overlap(buffers, hung) or self._io.holds(buffers)

    def aligned(self, nbytes: int) -> Buffer:
        """As `io`."""
        return self._io.aligned(nbytes)

    def close(self) -> None:
        """As `io`."""
        self._io.close()

    def _next(self, operation: str) -> Trouble | None:
        with self._lock:
            number = self._numbers[operation]
            self._numbers[operation] += 1
            trouble = self._plan(operation, number)
            if trouble is Trouble.NO_SPACE and operation == "read":
                trouble = None  # nobody runs out of room by reading
            if trouble is not None:
                self.met[trouble] += 1
            return trouble

    def _flipped(self, piece: Piece, trouble: Trouble | None) -> Piece:
        if trouble is not Trouble.FLIP or piece.write:
            return piece
        buffer, check = piece.buffers[-1], piece.check

        def flip() -> Fault | None:
            buffer[len(buffer) // 2] ^= 1
            return check() if check is not None else None

        return piece._replace(check=flip)

    def _trouble(self, piece: Piece, trouble: Trouble, end: float) -> Fault | None:
        if trouble is Trouble.HANG:
            return self._hang(piece, end)
        if trouble is Trouble.SHORT:
            half = piece.buffers[: len(piece.buffers) // 2]
            self._io.transfer([piece._replace(buffers=half, check=None)] if half else [], 60)
            return short(piece, sum(map(len, half)))
        number = {
            Trouble.IO: errno.EIO,
            Trouble.NO_SPACE: errno.ENOSPC,
            Trouble.PERMISSION: errno.EACCES,
        }[trouble]
        return fault_of(OSError(number, os.strerror(number)), piece.file.path)

    def _hang(self, piece: Piece, end: float) -> Fault | None:
        if self._released.wait(max(0.0, end - time.monotonic())):
            return self._io.transfer([piece], max(0.0, end - time.monotonic()))[0]
        with self._lock:
            if not self._released.is_set():
                self._hung.append(piece)
        return late(piece.file.path)


def _flip_in_file(piece: Piece) -> None:
    """Behind everyone's back, in the middle of what was just written."""
    place = piece.offset + piece.nbytes // 2
    before = os.pread(piece.file.fd, 1, place)
    os.pwrite(piece.file.fd, bytes([before[0] ^ 1]), place)
