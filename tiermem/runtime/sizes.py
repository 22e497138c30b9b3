"""What a block is charged, in every tier: its size class, a whole number of granules."""

from __future__ import annotations

GRANULE_BYTES = 4096
"""The unit of room: a memory page, and the alignment O_DIRECT asks of every offset and length."""

_STEPS = 8  # classes per octave above eight granules: at most an eighth of a block is waste


def charged_bytes(nbytes: int) -> int:
    """The smallest size class that holds `nbytes`; nothing is charged less than a granule.

    Whole granules up to eight of them, then eight classes per doubling. Few classes mean that a
    slot which one block leaves fits the next one.
    """
    granules = max(1, -(-nbytes // GRANULE_BYTES))
    step = 1 << max(0, (granules - 1).bit_length() - _STEPS.bit_length())
    return -(-granules // step) * step * GRANULE_BYTES
