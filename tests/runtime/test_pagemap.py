"""Where pages lie: from the kernel itself, and from a map with several nodes."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime import pagemap
from tiermem.runtime.pagemap import Placement, placement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux says where pages lie")
PAGES = 64

MAPS = """\
7f0000000000 default file=/usr/lib/libc.so.6 mapped=9 N0=9 kernelpagesize_kB=4
7f0000100000 bind:2 anon=300 dirty=300 N0=44 N2=256 kernelpagesize_kB=4
7f0000900000 prefer:1 anon=2 N1=2 kernelpagesize_kB=2048
"""


def test_pages_that_were_never_touched_are_nowhere() -> None:
    """A page comes to be when it is first written."""
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    before = placement(whole.ctypes.data, whole.nbytes)
    if before.source != "move_pages":
        pytest.skip("move_pages is forbidden here")
    assert before.pages == {-1: PAGES}
    whole[: 16 * mmap.PAGESIZE] = 1
    after = placement(whole.ctypes.data, whole.nbytes)
    assert after.pages[-1] == PAGES - 16
    assert sum(after.pages.values()) == PAGES
    few = placement(whole.ctypes.data, whole.nbytes, pages_at_most=8)
    assert sum(few.pages.values()) == 8
    assert few.pages[-1] == 6


def test_the_map_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping that holds the address counts, in pages of 4 KiB."""
    maps = tmp_path / "numa_maps"
    maps.write_text(MAPS, encoding="ascii")
    assert pagemap._by_mapping(0x7F0000100000, maps) == {0: 44, 2: 256}
    assert pagemap._by_mapping(0x7F0000100000 + 4096, maps) == {0: 44, 2: 256}
    assert pagemap._by_mapping(0x7F0000900000, maps) == {1: 1024}
    assert pagemap._by_mapping(0x1000, maps) == {}
    assert pagemap._by_mapping(0x1000, tmp_path / "none") == {}

    def refuse(_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(pagemap, "node_of_pages", refuse)
    whole = np.ones(PAGES * 4096, dtype=np.uint8)
    found = placement(whole.ctypes.data, whole.nbytes)
    assert found.source in ("numa_maps", "unknown")


def test_elsewhere_counts_what_is_on_other_nodes() -> None:
    """Pages that are not there yet are on no node."""
    found = Placement({0: 5, 2: 7, -1: 100}, "move_pages")
    assert found.elsewhere(2) == 5
    assert found.elsewhere(0) == 7
    assert found.elsewhere(1) == 12
