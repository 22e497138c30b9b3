"""Which bytes of an arena are given out: contiguous where possible, in several spans otherwise.

Free runs are kept by their length in bins, eight for each doubling (the size classes of
`tiermem.runtime.sizes`), and by address within a bin. The lowest run that is long enough is so
found among as many bins as there are classes, however many runs there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Extent, Span


class Spans:
    """The free bytes of an arena of `capacity_bytes`, a whole number of granules."""

    def __init__(self, capacity_bytes: int) -> None:
        assert capacity_bytes > 0, "an arena has at least one granule"
        assert capacity_bytes % GRANULE_BYTES == 0, "an arena is a whole number of granules"
        self.capacity_bytes = capacity_bytes
        self._free = capacity_bytes // GRANULE_BYTES  # granules, as all that follows
        self._given: dict[int, int] = {}  # first of what was given out -> how many
        self._length: dict[int, int] = {0: self._free}  # first of a free run -> how many
        self._start: dict[int, int] = {self._free: 0}  # the one after a free run -> its first
        self._bins: dict[int, list[int]] = {}  # bin -> firsts of its runs, ascending
        self._filled = 0  # bit n is set while bin n holds a run
        self._push(_bin(self._free), 0)

    @property
    def free_bytes(self) -> int:
        """Bytes that are not given out."""
        return self._free * GRANULE_BYTES

    @property
    def used_bytes(self) -> int:
        """Bytes that are given out."""
        return self.capacity_bytes - self.free_bytes

    def allocate(self, nbytes: int) -> Extent | None:
        """Room for `nbytes`, at least one granule: the lowest free run that is long enough, else
        several of the longest, else None, and then nothing is taken."""
        need = -(-nbytes // GRANULE_BYTES) or 1
        if need > self._free:
            return None
        start = self._first_fit(need)
        if start is not None:
            return (self._take(start, need),)
        spans = []
        while start is None:
            longest = self._bins[self._filled.bit_length() - 1][0]
            length = self._length[longest]
            spans.append(self._take(longest, length))
            need -= length
            start = self._first_fit(need) if need else 0
        if need:
            spans.append(self._take(start, need))
        return tuple(spans)

    def free(self, extent: Extent) -> None:
        """Take back what `allocate` gave, whole; free neighbours become one run."""
        for span in extent:
            start, length = span.offset // GRANULE_BYTES, span.nbytes // GRANULE_BYTES
            given = self._given.pop(start, 0)
            assert given == length, f"{span} was not given out"
            self._free += length
            after = start + length
            if after in self._length:
                length = self._length.pop(after)
                self._pull(_bin(length), after)
                after += length
            if start in self._start:
                middle, start = start, self._start.pop(start)
                self._pull(_bin(middle - start), start)
            self._length[start] = after - start
            self._start[after] = start
            self._push(_bin(after - start), start)

    def runs(self) -> list[Span]:
        """The free runs, by address."""
        return [
            Span(start * GRANULE_BYTES, length * GRANULE_BYTES)
            for start, length in sorted(self._length.items())
        ]

    def _first_fit(self, need: int) -> int | None:
        """The lowest run of at least `need` granules."""
        number, lengths = _bin(need), self._length
        fitting = []
        for start in self._bins.get(number, ()):  # of a size class, the first one fits
            if lengths[start] >= need:
                fitting.append(start)
                break
        while above := self._filled >> (number + 1):
            number += (above & -above).bit_length()
            fitting.append(self._bins[number][0])
        return min(fitting, default=None)

    def _take(self, start: int, need: int) -> Span:
        """Give out the first `need` granules of the run at `start`."""
        length = self._length.pop(start)
        number, left = _bin(length), length - need
        if left:
            rest = start + need
            self._length[rest] = left
            self._start[start + length] = rest
            if number == _bin(left):  # in the same place of the same bin
                starts = self._bins[number]
                starts[bisect_left(starts, start)] = rest
            else:
                self._pull(number, start)
                self._push(_bin(left), rest)
        else:
            del self._start[start + length]
            self._pull(number, start)
        self._given[start] = need
        self._free -= need
        return Span(start * GRANULE_BYTES, need * GRANULE_BYTES)

    def _push(self, number: int, start: int) -> None:
        insort(self._bins.setdefault(number, []), start)
        self._filled |= 1 << number

    def _pull(self, number: int, start: int) -> None:
        starts = self._bins[number]
        del starts[bisect_left(starts, start)]
        if not starts:
            del self._bins[number]
            self._filled ^= 1 << number


def _bin(granules: int) -> int:
    """The bin of a run: one for each length below 16, then eight for each doubling."""
    shift = granules.bit_length() - 4
    return 8 * shift + (granules >> shift) if shift > 0 else granules
