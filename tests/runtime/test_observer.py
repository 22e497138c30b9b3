"""What a runtime tells of itself, with real memory and real files."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem.core.messages import Move
from tiermem.errors import RuntimeFault
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.host import HostArena
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.observer import Observer
from tiermem.runtime.runtime import Runtime
from tiermem.runtime.status_file import read_status
from tiermem.runtime.stores import Fault, FaultKind, Store

PAGE, MIB = 4096, 1 << 20
BLOCK = 64 << 10


class Machine:
    """Room for four blocks in memory, and for many on disk."""

    def __init__(self, directory: Path) -> None:
        self.files = FileStore(directory, 64 * MIB, io=PosixIO(direct=False), segment_bytes=8 * MIB)
        self.stores: dict[str, Store] = {"dram": HostArena(4 * BLOCK), "nvme": self.files}
        self.runtime = Runtime(self.stores, "lru")
        self.observer = self.runtime.observer

    def use(self, number: int) -> bool:
        """Whether block `number` was there; if not, it is written."""
        block = self.runtime.block(number.to_bytes(16, "little"), BLOCK)
        with self.runtime.acquire([block]) as grant:
            hit = not grant.missing
            for view in grant.views(block):
                assert not hit or bool((view == number % 251).all())
                view[:] = np.uint8(number % 251)
            if not hit:
                grant.commit()
            return hit


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.runtime.close()


def test_counts_what_really_happened(machine: Machine) -> None:
    """Ten blocks through room for four: those that were moved down come back as hits of files,
    and every sum adds up."""
    assert not any(machine.use(number) for number in range(10))
    hits = sum(machine.use(number) for number in range(10))
    counters = machine.observer.counters()
    assert counters.hit.blocks == hits == 10
    assert counters.asked.blocks == 20
    assert counters["nvme"].hit.blocks + counters["dram"].hit.blocks == 10
    assert counters["nvme"].hit.nbytes == counters["nvme"].hit.blocks * BLOCK
    assert counters["nvme"].loaded.blocks >= counters["nvme"].hit.blocks > 0
    assert counters["nvme"].load_s > 0
    assert counters.hit_rate == 0.5
    assert machine.observer.status().why.startswith("Hit rate 50 %: 10 of 20 blocks")


def test_status_files_and_metrics_live_with_the_runtime(machine: Machine, tmp_path: Path) -> None:
    """The directory has a status at once and one at the end; the port is served until then."""
    endpoint = machine.observer.serve()
    for number in range(6):
        machine.use(number)
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=10) as answer:
        assert 'tiermem_stored_total{tier="dram"} 6' in answer.read().decode()
    machine.runtime.close()
    machine.observer.close()
    (entry,) = read_status(tmp_path)["runtimes"]
    assert entry["closed"]
    assert entry["policy"] == "lru"
    assert entry["missed"] == {"new": {"blocks": 6, "bytes": 6 * BLOCK}}
    files = entry["tiers"][1]["files"]
    assert files["io_path"] == "posix_buffered"
    assert 0 < files["disk_bytes"] <= 64 * MIB
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=10)


def test_a_later_store_passes_the_status_over(machine: Machine, tmp_path: Path) -> None:
    """The status file is ours, and no stranger among the segments."""
    machine.runtime.close()
    again = FileStore(tmp_path, 64 * MIB, io=PosixIO(direct=False), segment_bytes=8 * MIB)
    assert not [each for each in again.report().ignored if "status" in each.name]
    again.close()


def test_blame_goes_to_the_device(dict_store: Callable[..., Any]) -> None:
    """A read that failed is the file tier's fault, a write too; between memories, the target's."""
    stores = {"dram": HostArena(PAGE), "cxl": HostArena(PAGE, name="cxl"), "nvme": dict_store(PAGE)}
    observer = Observer(stores)
    lost = {1: Fault(FaultKind.IO, "x"), 2: Fault(FaultKind.CHECKSUM, "x")}
    observer.blame(Move(1, (1, 2), "nvme", "dram", 2, "fetch"), lost)
    observer.blame(Move(2, (1,), "dram", "nvme", 1, "demote"), {1: lost[1]})
    observer.blame(Move(3, (1,), "dram", "cxl", 1, "demote"), {1: lost[1]})
    counters = observer.counters()
    assert counters["nvme"].faults == {"io": 2, "checksum": 1}
    assert counters["cxl"].faults == {"io": 1}
    assert counters["dram"].faults == {}
    observer.watch()  # no directory, nothing to write
    observer.close()


def test_an_estimate_makes_costly_hits_visible(machine: Machine) -> None:
    """Whoever knows what computing takes says so, and the status warns."""
    for number in [*range(10), *range(10)]:
        machine.use(number)
    assert machine.observer.status().warnings == ()
    machine.observer.recompute_s = lambda: 1e-9
    assert "hits cost more than they save" in machine.observer.status().warnings[0]


def test_a_closed_runtime_serves_nothing(machine: Machine) -> None:
    """A port that is opened after the end would never be closed."""
    machine.runtime.close()
    machine.observer.close()
    with pytest.raises(RuntimeFault, match="closed"):
        machine.observer.serve()


def test_a_removed_directory_has_a_status(machine: Machine, tmp_path: Path) -> None:
    """What cannot be known is null, with a reason."""
    machine.use(1)
    shutil.rmtree(tmp_path)
    files = machine.observer.status().document()["tiers"][1]["files"]
    assert files["directory_bytes"] is None
    assert "removed or moved" in files["directory_bytes_reason"]
    tmp_path.mkdir()
