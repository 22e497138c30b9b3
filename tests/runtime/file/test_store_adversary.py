"""The adversary: random histories against a dict, with and without a device that fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.stores import FaultKind
from tiermem.testing.faults import FaultyIO, Trouble, seeded
from tiermem.testing.keyed_stores import content, key

SIZES = (0, 1, 511, 4096, 4097, 12_288, 65_536, 300_000)
NUMBERS = 8
CAPACITY_BYTES = 3 << 20
TROUBLES = {Trouble.IO: 0.04, Trouble.SHORT: 0.04, Trouble.FLIP: 0.04, Trouble.NO_SPACE: 0.04}

Draw = st.DataObject


class Adversary:
    """One history. `model` holds what must be served: version and size by number."""

    def __init__(self, directory: Path, data: Draw, seed: int | None) -> None:
        self.directory = directory
        self.data = data
        self.faulty = seed is not None
        plain = PosixIO(direct=False, threads=1)
        shares = TROUBLES if seed is not None else {}
        self.io = FaultyIO(plain, seeded(seed or 0, shares, "read", "write"))
        self.model: dict[int, tuple[int, int, bool]] = {}
        self.version = 0
        self.store = self.open()

    def open(self) -> FileStore:
        return FileStore(self.directory, CAPACITY_BYTES, io=self.io)

    def step(self) -> None:
        act = self.data.draw(st.sampled_from(("write",) * 5 + ("read",) * 4 + OTHERS))
        getattr(self, act)()
        self.compare()

    def write(self) -> None:
        numbers = self.data.draw(st.lists(st.integers(0, NUMBERS - 1), max_size=4, unique=True))
        keep = self.data.draw(st.booleans())
        items, told = [], []
        for number in numbers:
            self.version += 1
            nbytes = self.data.draw(st.sampled_from(SIZES))
            items.append((key(number), [content(self.version, nbytes)], nbytes))
            told.append((number, (self.version, nbytes, keep)))
        answers = self.store.write(items, keep=keep)
        for (number, entry), fault in zip(told, answers, strict=True):
            if fault is None:
                self.model[number] = entry
            else:
                assert self.faulty or fault.kind is FaultKind.SPACE, fault

    def read(self) -> None:
        for number in self.data.draw(st.lists(st.integers(0, NUMBERS - 1), max_size=4)):
            self.look_at(number)

    def look_at(self, number: int) -> None:
        version, nbytes, _ = self.model.get(number, (0, 10, True))
        room = np.zeros(nbytes, dtype=np.uint8)
        (fault,) = self.store.read([(key(number), [room], nbytes)])
        if fault is None:
            assert number in self.model, f"block {number} was never written, or it was let go"
            assert np.array_equal(room, content(version, nbytes)), f"wrong bytes for {number}"
        elif number in self.model:
            assert self.faulty, fault
            del self.model[number]

    def delete(self) -> None:
        numbers = self.data.draw(st.lists(st.integers(0, NUMBERS - 1), max_size=3))
        self.store.delete([key(number) for number in numbers])
        for number in numbers:
            self.model.pop(number, None)

    def clear(self) -> None:
        self.store.clear()
        self.model = {}

    def sync(self) -> None:
        assert self.store.sync() is None

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()
        self.model = {number: entry for number, entry in self.model.items() if entry[2]}
        if self.faulty:  # a header that could not be read is a miss, and counted
            lost = [number for number in self.model if key(number) not in self.store]
            assert len(lost) <= sum(self.store.report().faults.values())
            for number in lost:
                del self.model[number]

    def compare(self) -> None:
        assert dict(self.store.keys()) == {
            key(number): nbytes for number, (_, nbytes, _) in self.model.items()
        }
        report = self.store.report()
        assert report.directory_bytes <= CAPACITY_BYTES
        assert report.used_bytes <= CAPACITY_BYTES

    def end(self) -> None:
        for number in list(self.model):
            self.look_at(number)
        self.store.clear()
        report = self.store.report()
        self.store.close()
        self.io.close()
        assert report.slots == report.free_slots, "a slot leaked"


OTHERS = ("delete", "clear", "sync", "reopen")


def play(data: Draw, seed: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        adversary = Adversary(Path(folder), data, seed)
        try:
            for _ in range(data.draw(st.integers(1, 25))):
                adversary.step()
            adversary.end()
        finally:
            adversary.store.close()
            adversary.io.close()


SETTINGS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SETTINGS
@given(st.data())
def test_a_store_is_a_dict(data: Draw) -> None:
    """Whatever is done to it, in any order, it serves what a dict would, and nothing else."""
    play(data, None)


@SETTINGS
@given(st.data(), st.integers(0, 10_000))
def test_a_failing_store_only_misses(data: Draw, seed: int) -> None:
    """EIO, short transfers, full disks and flipped bytes: blocks may be missing, never wrong."""
    play(data, seed)
