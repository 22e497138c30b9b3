"""What becomes of slots: newer blocks, readers, marks, and what a kill would leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiermem.runtime.file.head import Head
from tiermem.runtime.file.index import Index
from tiermem.runtime.file.segment import Segment, Slot, State
from tiermem.runtime.io.seam import OpenFile

K, L = b"k" * 16, b"l" * 16


class Bench:
    """An index over one segment; `freed` are the slots that came back."""

    def __init__(self, path: Path) -> None:
        self.file = OpenFile(path, os.open(path, os.O_RDWR | os.O_CREAT))
        self.segment = Segment(self.file, Head(8192, 20, 0, bytes(16), ""), b"boot")
        self.segment.extend(20)
        self.freed: list[int] = []
        self.errors: list[OSError] = []
        self.index = Index(lambda slot: self.freed.append(slot.number), self.errors.append)

    def write(self, key: bytes, keep: bool = True) -> Slot:
        slot = Slot(self.segment, self.segment.take(), key, 100, self.index.stamp(), keep)
        self.index.commit(slot)
        return slot

    def settle(self) -> None:
        self.index.settle(list(self.index.fresh))

    @property
    def marked(self) -> list[int]:
        return self.segment.marks.numbers()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An index and its segment."""
    made = Bench(tmp_path / "one.blocks")
    yield made
    made.segment.close()


def test_marked_when_durable(bench: Bench) -> None:
    """Not when written."""
    slot = bench.write(K)
    assert (slot.state, bench.marked) == (State.FRESH, [])
    bench.settle()
    assert (slot.state, bench.marked) == (State.DURABLE, [slot.number])
    assert not bench.index.fresh


def test_a_durable_block_stays_until_the_newer_one_is_durable(bench: Bench) -> None:
    """A kill in between must leave one of them."""
    old = bench.write(K)
    bench.settle()
    new = bench.write(K)
    assert bench.index.slots[K] is new
    assert (bench.marked, bench.freed) == ([old.number], [])
    newest = bench.write(K)
    assert (bench.marked, bench.freed) == ([old.number], [new.number])
    bench.settle()
    assert bench.marked == [newest.number]
    assert bench.freed == [new.number, old.number]


def test_a_replaced_block_that_nobody_keeps_goes_at_once(bench: Bench) -> None:
    """What is not kept is never marked, and takes the older one along."""
    bench.write(K)
    bench.settle()
    new = bench.write(K, keep=False)
    bench.settle()
    assert (bench.marked, bench.freed) == ([], [0])
    assert new.state is State.FRESH
    bench.write(K)
    assert bench.freed == [0, new.number]


def test_delete_takes_all_versions(bench: Bench) -> None:
    """Neither the new nor the durable old one comes back."""
    bench.write(K)
    bench.write(L)
    bench.settle()
    bench.write(K)
    assert bench.index.drop([K, b"x" * 16]) == 1
    assert bench.marked == [1]
    assert sorted(bench.freed) == [0, 2]
    assert list(bench.index.slots) == [L]


def test_a_slot_is_free_when_its_last_reader_has_ended(bench: Bench) -> None:
    """And not served in the meantime."""
    slot = bench.write(K)
    slot.readers = 2
    bench.index.drop([K])
    bench.index.unread(slot)
    assert bench.freed == []
    bench.index.unread(slot)
    assert bench.freed == [slot.number]


def test_a_failed_read_drops_that_block_only(bench: Bench) -> None:
    """Not the one that took its key meanwhile."""
    slot = bench.write(K)
    bench.write(K)
    assert bench.index.drop_slot(slot) == 0
    assert K in bench.index.slots
    assert bench.index.drop_slot(bench.index.slots[K]) == 1


def test_the_newest_sequence_wins(bench: Bench) -> None:
    """Also when two writers of one key end in the other order."""
    first = Slot(bench.segment, bench.segment.take(), K, 100, bench.index.stamp(), True)
    second = bench.write(K)
    bench.index.commit(first)
    assert bench.index.slots[K] is second
    assert bench.freed == [first.number]
    stamps = [bench.index.stamp() for _ in range(100)]
    assert stamps == sorted(set(stamps))


def test_clear_takes_what_is_being_written(bench: Bench) -> None:
    """A write that began before it has happened before it."""
    bench.write(L)
    writing = Slot(bench.segment, bench.segment.take(), K, 100, bench.index.stamp(), True)
    bench.index.clear(bench.index.stamp())
    bench.index.commit(writing)
    assert not bench.index.slots
    assert sorted(bench.freed) == [0, 1]
    assert bench.write(K).state is State.FRESH


def test_adopted_blocks_are_durable(bench: Bench) -> None:
    """Of two with one key the newer stays, and the other loses its mark."""
    for number, sequence in ((0, 5), (1, 8)):
        slot = Slot(bench.segment, bench.segment.take(), K, 100, sequence, True)
        bench.segment.marks.put([number], True)
        slot.marked = True
        bench.index.adopt(slot)
    assert bench.index.slots[K].sequence == 8
    assert (bench.marked, bench.freed) == ([1], [0])
    assert bench.index.newest == 8


def test_marks_that_cannot_be_written_are_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that cannot be marked is dropped; a slot whose mark stays is never used again."""
    bench.write(K)
    bench.settle()
    bench.write(L)

    def refuse(*_: object) -> int:
        raise OSError("no")

    monkeypatch.setattr(os, "pwrite", refuse)
    bench.settle()
    assert list(bench.index.slots) == [K]
    assert bench.freed == [1]
    bench.index.drop([K])
    assert bench.freed == [1]
    assert len(bench.errors) == 2
