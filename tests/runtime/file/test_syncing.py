"""Grouped sync: everyone waits for a round that began after they came, and no longer than said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tiermem.runtime.file.syncing import Syncer
from tiermem.runtime.stores import Fault, FaultKind


class Device:
    """Counts rounds; each waits for `open` while it is clear."""

    def __init__(self) -> None:
        self.rounds = 0
        self.inside = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.fault: Fault | None = None

    def settle(self) -> Fault | None:
        self.rounds += 1
        self.inside.release()
        assert self.open.wait(20)
        return self.fault


Make = Callable[..., Syncer]


@pytest.fixture
def device() -> Device:
    """What is synced."""
    return Device()


@pytest.fixture
def make(device: Device) -> Iterator[Make]:
    """Syncers of `device`, ended with the test."""
    made: list[Syncer] = []

    def one(settle_s: float = 60.0) -> Syncer:
        made.append(Syncer(device.settle, settle_s))
        return made[-1]

    yield one
    device.open.set()
    for syncer in made:
        syncer.close(10.0)


def in_threads(count: int, act: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=act) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_callers_share_a_round(device: Device, make: Make) -> None:
    """All who come during a round get the next one, together."""
    syncer = make()
    device.open.clear()
    first = in_threads(1, lambda: syncer.now(10.0))
    assert device.inside.acquire(timeout=10)
    later = in_threads(8, lambda: syncer.now(10.0))
    while syncer.waiting != 8:
        time.sleep(0.001)
    device.open.set()
    for thread in first + later:
        thread.join(10)
    assert device.rounds == 2


def test_the_fault_reaches_every_caller(device: Device, make: Make) -> None:
    """Of that round; the next one may go well."""
    syncer = make()
    device.fault = Fault(FaultKind.IO, "no")
    assert syncer.now(10.0) == device.fault
    device.fault = None
    assert syncer.now(10.0) is None


def test_nobody_waits_for_a_device_that_hangs(device: Device, make: Make) -> None:
    """Beyond the deadline; and closing does not either."""
    syncer = make()
    device.open.clear()
    fault = syncer.now(0.05)
    assert fault is not None
    assert fault.kind is FaultKind.TIMEOUT
    started = time.monotonic()
    syncer.close(0.05)
    assert time.monotonic() - started < 5


def test_what_was_written_settles_unasked(device: Device, make: Make) -> None:
    """One round for all that came within the while."""
    syncer = make(0.05)
    for _ in range(100):
        syncer.soon()
    assert device.inside.acquire(timeout=10)
    assert not device.inside.acquire(timeout=0.2)
    assert device.rounds == 1


def test_closed(device: Device, make: Make) -> None:
    """No round after the end, and no thread."""
    syncer = make()
    before = threading.active_count()
    syncer.close(10.0)
    syncer.close(10.0)
    assert threading.active_count() == before - 1
    fault = syncer.now(1.0)
    assert fault is not None
    assert fault.kind is FaultKind.CLOSED
    assert device.rounds == 0


def test_a_fork_is_told(device: Device, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has no thread that could sync."""
    syncer = make()
    monkeypatch.setattr("os.getpid", lambda: -1)
    fault = syncer.now(1.0)
    assert fault is not None
    assert "fork" in fault.detail
    syncer.close(1.0)
    monkeypatch.undo()
