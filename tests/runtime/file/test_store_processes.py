"""Several processes on one directory: each its own segments, and those of the dead for whoever
comes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiermem.runtime.file.store import FileStore
from tiermem.testing.keyed_stores import is_whole, key, numbers_of, put

MakeStore = Callable[..., FileStore]

NEIGHBOUR = """
import sys
from pathlib import Path
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.testing.keyed_stores import is_whole, key, put

store = FileStore(Path(sys.argv[1]), 16 << 20, io=PosixIO())
print("found", len(store), flush=True)
for line in sys.stdin:
    verb, first, last = line.split()
    numbers = range(int(first), int(last))
    if verb == "put":
        print(sum(fault is None for fault in put(store, dict.fromkeys(numbers, 9000))), flush=True)
    elif verb == "sync":
        print(store.sync(), flush=True)
    elif verb == "check":
        print(sum(is_whole(store, number, 9000) for number in numbers), flush=True)
store.close()
"""


class Neighbour:
    """Another process with a store of the same directory."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.found = int(self.answer().split()[1])

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the neighbour died"
        return line.strip()

    def say(self, verb: str, first: int = 0, last: int = 0) -> str:
        self.begin(verb, first, last)
        return self.answer()

    def begin(self, verb: str, first: int = 0, last: int = 0) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{verb} {first} {last}\n")
        self.process.stdin.flush()

    def leave(self) -> None:
        """Close the store and end."""
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Callable[[], Neighbour]]:
    """Starts neighbours on `tmp_path/store`."""
    started: list[Neighbour] = []

    def start() -> Neighbour:
        started.append(Neighbour(tmp_path / "store"))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()


def test_the_same_keys_in_two_processes(
    make_store: MakeStore, neighbour: Callable[[], Neighbour]
) -> None:
    """LMCache #2517: both write at once; neither fails, both read their own, and the next process
    finds each block once."""
    other = neighbour()
    store = make_store()
    other.begin("put", 0, 200)
    assert put(store, dict.fromkeys(range(200), 9000)) == [None] * 200
    assert other.answer() == "200"
    assert all(is_whole(store, number, 9000) for number in range(200))
    assert other.say("check", 0, 200) == "200"
    report = store.report()
    assert report.used_bytes < report.directory_bytes
    store.close()
    other.leave()
    again = make_store()
    assert sorted(numbers_of(again)) == list(range(200))
    assert all(is_whole(again, number, 9000) for number in range(200))
    assert again.report().ignored == ()


def test_segments_of_the_living_are_left_alone(
    make_store: MakeStore, neighbour: Callable[[], Neighbour]
) -> None:
    """Not served, not counted, not cleared; taken over once their process is dead."""
    other = neighbour()
    assert other.say("put", 0, 10) == "10"
    assert other.say("sync") == "None"
    store = make_store()
    assert len(store) == 0
    assert store.report().neighbours == 1
    store.clear()
    assert other.say("check", 0, 10) == "10"
    other.kill()
    store.close()
    store = make_store()
    assert sorted(numbers_of(store)) == list(range(10))
    assert store.report().neighbours == 0
    assert neighbour().found == 0


def test_a_killed_neighbour_loses_only_what_was_not_durable(
    make_store: MakeStore, neighbour: Callable[[], Neighbour]
) -> None:
    """kill -9 right after a sync: all of it; what came later is gone or whole."""
    other = neighbour()
    assert other.say("put", 0, 30) == "30"
    assert other.say("sync") == "None"
    other.begin("put", 30, 500)
    other.kill()
    store = make_store()
    found = numbers_of(store)
    assert set(range(30)) <= set(found)
    assert all(is_whole(store, number, 9000) for number in found)
    assert key(499) not in store or is_whole(store, 499, 9000)


def test_many_openings_at_once(neighbour: Callable[[], Neighbour], make_store: MakeStore) -> None:
    """Each segment goes to exactly one of them."""
    store = make_store(segment_bytes=1)
    for number in range(0, 300, 10):
        put(store, dict.fromkeys(range(number, number + 10), 9000))
    store.close()
    others = [neighbour() for _ in range(3)]
    assert sum(other.found for other in others) == 300
    for other in others:
        other.leave()
    assert len(make_store()) == 300
