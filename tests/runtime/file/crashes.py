"""Kill a writing process again and again, and look at what the next one finds.

    python tests/runtime/file/crashes.py --kills 200 --seed 1

A child writes, replaces, syncs, deletes and clears blocks in random order, and notes in a journal
what it is about to do and what was acknowledged. It is killed (-9) at a random moment. Then the
directory is opened again: every block that was acknowledged as durable is there and whole, none is
there that was not acknowledged at least as written, nothing deleted comes back, and the files never
took more than the capacity. No checkpoint has run, and the next child goes on with what is there.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.testing.keyed_stores import bytes_in, content, key, numbers_of

CAPACITY_BYTES = 24 << 20
NUMBERS = 60
SIZES = (16, 100, 4096, 5000, 40_000, 65_536, 300_001)


def size_of(number: int) -> int:
    """Bytes of block `number`, in every version."""
    return SIZES[number % len(SIZES)]


def content_of(number: int, version: int) -> np.ndarray:
    """Bytes of one version of a block; it begins with its number."""
    block = content(number * 1_000_000 + version, size_of(number))
    block[:8] = np.frombuffer(version.to_bytes(8, "little"), dtype=np.uint8)
    return block


# -- the child ----------------------------------------------------------------------------------


def note(line: str) -> None:
    """One line of the journal, in one system call: it outlives the process."""
    os.write(1, (line + "\n").encode())


def work(directory: Path, seed: int, version: int) -> None:
    """Random calls until killed. Small letters begin, capital ones were acknowledged."""
    dice = random.Random(seed)
    note("o")
    store = FileStore(directory, CAPACITY_BYTES, io=PosixIO(), identity="crashes")
    note("O")
    while True:
        version += 1
        act = dice.random()
        if act < 0.6:
            numbers = dice.sample(range(NUMBERS), dice.choice((1, 2, 8)))
            items = [(key(n), [content_of(n, version)], size_of(n)) for n in numbers]
            note(f"w {version} {' '.join(map(str, numbers))}")
            answers = store.write(items)
            good = [str(n) for n, fault in zip(numbers, answers, strict=True) if fault is None]
            note(f"W {version} {' '.join(good)}")
        elif act < 0.85:
            note("s")
            note("S" if store.sync() is None else "s")
        elif act < 0.99:
            number = dice.randrange(NUMBERS)
            note(f"d {number}")
            store.delete([key(number)])
            note(f"D {number}")
        else:
            note("c")
            store.clear()
            note("C")


# -- the judge ----------------------------------------------------------------------------------


@dataclass
class Story:
    """What may and must be found of one block."""

    durable: int | None = None  # this version, or a newer one, must be there
    written: set[int] = field(default_factory=set)  # acknowledged, not yet durable
    doubtful: bool = False  # a delete or clear had begun: it may be gone
    gone: bool = False  # a delete or clear was acknowledged


class Journal:
    """The stories of all blocks, from what was found before and what the child noted."""

    def __init__(self, found: dict[int, int]) -> None:
        self.stories = {number: Story(durable=found.get(number)) for number in range(NUMBERS)}
        self._before_sync: dict[int, set[int]] = {}

    def take(self, lines: list[str]) -> None:
        """Read the lines; a last one that was cut short counts as begun."""
        for line in lines:
            verb, *numbers = line.split()
            values = [int(number) for number in numbers]
            if verb == "W":
                for number in values[1:]:
                    self.stories[number].written.add(values[0])
            elif verb in ("d", "D"):
                self._forget(self.stories[values[0]], verb == "D")
            elif verb in ("c", "C"):
                for story in self.stories.values():
                    self._forget(story, verb == "C")
            elif verb == "s":
                self._before_sync = {n: set(s.written) for n, s in self.stories.items()}
            elif verb == "S":
                self._synced()

    def _forget(self, story: Story, done: bool) -> None:
        story.doubtful = True
        if done:
            story.durable, story.written, story.doubtful = None, set(), False

    def _synced(self) -> None:
        for number, versions in self._before_sync.items():
            story = self.stories[number]
            if versions & story.written:
                story.durable = max(versions)
                story.written = {version for version in story.written if version > story.durable}
        self._before_sync = {}

    def judge(self, found: dict[int, int]) -> list[str]:
        """What is wrong with what was found."""
        wrong = []
        for number, story in self.stories.items():
            version = found.get(number)
            if version is None:
                if story.durable is not None and not story.doubtful:
                    wrong.append(f"block {number}: durable version {story.durable} is lost")
            elif version != story.durable and version not in story.written:
                told = f"durable {story.durable}, written {sorted(story.written)}"
                wrong.append(f"block {number}: version {version} is served; {told}")
        return wrong


def find(directory: Path, newest: int) -> tuple[dict[int, int], list[str]]:
    """Open the directory and read everything in it: versions by block, and what is wrong."""
    found: dict[int, int] = {}
    wrong = []
    with FileStore(directory, CAPACITY_BYTES, io=PosixIO(), identity="crashes") as store:
        for number in numbers_of(store):
            name, nbytes = key(number), size_of(number)
            room = np.zeros(nbytes, dtype=np.uint8)
            fault = store.read([(name, [room], nbytes)])[0]
            if fault is not None:
                wrong.append(f"block {number} is listed and cannot be read: {fault.detail}")
                continue
            version = int.from_bytes(room[:8].tobytes(), "little")
            if version > newest or not np.array_equal(content_of(number, version), room):
                wrong.append(f"block {number} has bytes that nobody wrote")
            found[number] = version
        faults = store.report().faults
        if faults:
            wrong.append(f"faults after a kill: {faults}, {store.report().last_fault}")
    return found, wrong


def kill_once(directory: Path, seed: int, newest: int) -> tuple[list[str], int]:
    """Start a child, kill it at a random moment; its journal, and the most bytes on disk."""
    dice = random.Random(seed)
    journal = directory.parent / "journal"
    command = [sys.executable, __file__, "--child", str(directory)]
    with journal.open("wb") as out:
        child = subprocess.Popen(
            [*command, "--seed", str(seed), "--version", str(newest)], stdout=out
        )
        first = b"o" if dice.random() < 0.15 else b"W"  # sometimes while it is opening
        most, end = 0, time.monotonic() + 60
        while first not in journal.read_bytes():
            assert child.poll() is None, f"seed {seed}: the child ended by itself"
            assert time.monotonic() < end, f"seed {seed}: the child hangs"
            time.sleep(0.002)
        end = time.monotonic() + dice.expovariate(4 if first == b"W" else 100)
        while time.monotonic() < end:
            most = max(most, bytes_in(directory) or 0)
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait(30)
    return journal.read_text().splitlines(), most


def run(kills: int, seed: int, folder: Path) -> int:
    """Kill `kills` times; the number of things that were wrong, each of which is printed."""
    directory = folder / "store"
    found: dict[int, int] = {}
    newest = wrongs = durable = lines_seen = 0
    for count in range(kills):
        if count % 10 == 0:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            found = {}
        journal = Journal(found)
        lines, most = kill_once(directory, seed + count, newest)
        journal.take(lines)
        versions = [int(line.split()[1]) for line in lines if line[0] in "wW" and line[1:]]
        newest = max([newest, *versions])
        durable += sum(story.durable is not None for story in journal.stories.values())
        lines_seen += len(lines)
        found, wrong = find(directory, newest)
        wrong += journal.judge(found)
        if most > CAPACITY_BYTES:
            wrong.append(f"{most:,} bytes on disk, above the capacity of {CAPACITY_BYTES:,}")
        for line in wrong:
            print(f"kill {count}, seed {seed + count}: {line}", flush=True)
        wrongs += len(wrong)
    print(
        f"{kills} kills (seed {seed}): {lines_seen:,} journal lines, {durable:,} blocks were "
        f"acknowledged as durable at their moments, {wrongs} faults found",
        flush=True,
    )
    return wrongs


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="on the file system to try; default: /tmp")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--version", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        work(options.child, options.seed, options.version)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return min(1, run(options.kills, options.seed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
