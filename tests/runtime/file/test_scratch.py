"""Scratch memory is used again, and never handed to two at a time."""

from __future__ import annotations

from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.io.seam import PIECE_BYTES, aligned


def test_pages_and_pieces() -> None:
    """Aligned, of their size, all different."""
    scratch = Scratch(aligned)
    pages = [scratch.page() for _ in range(600)]
    assert {len(page) for page in pages} == {4096}
    assert len({page.ctypes.data for page in pages}) == 600
    assert all(page.ctypes.data % 4096 == 0 for page in pages)
    piece = scratch.piece()
    assert len(piece) == PIECE_BYTES
    assert piece.ctypes.data % 4096 == 0


def test_what_is_given_back_is_used_again() -> None:
    """No new memory for the next batch; and no more is kept than a bound."""
    asked: list[int] = []

    def counted(nbytes: int):
        asked.append(nbytes)
        return aligned(nbytes)

    scratch = Scratch(counted)
    for _ in range(5):
        held = [scratch.page(), scratch.page(), scratch.piece()]
        scratch.give(held)
    assert len(asked) == 2
    pieces = [scratch.piece() for _ in range(40)]
    scratch.give(pieces)
    made = len(asked)
    again = [scratch.piece() for _ in range(40)]
    assert len(asked) == made + 40 - 32
    assert len({piece.ctypes.data for piece in again}) == 40
