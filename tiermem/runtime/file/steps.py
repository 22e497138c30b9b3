"""The steps that give a store's room more slots: what `Room` decides under the lock and carries out
without it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tiermem.runtime.file.segment import Segment


class Stale(NamedTuple):
    """A file of a former process whose blocks are of no use here. Its bytes are booked."""

    path: Path
    nbytes: int


class Extend(NamedTuple):
    """Prepare so many more slots of a segment."""

    segment: Segment
    slots: int


class Create(NamedTuple):
    """Make a segment with so many slots prepared."""

    slots: int


class Recut(NamedTuple):
    """Turn a wholly free segment into one of another class, or remove it if it is too small."""

    segment: Segment


class Shorten(NamedTuple):
    """Cut slots, which are taken out of use already, off the end of a segment."""

    segment: Segment
    slots: int


Step = Extend | Create | Recut | Shorten | Stale
