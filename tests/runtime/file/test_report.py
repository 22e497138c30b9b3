"""Counters, and sentences made of them."""

from __future__ import annotations

import time

from tiermem.runtime.file.adopting import Ignored
from tiermem.runtime.file.report import Flow, Tally, why_cold
from tiermem.runtime.stores import Fault, FaultKind


def test_flows_add_up() -> None:
    """Blocks, bytes, seconds, by step."""
    tally = Tally()
    tally.flow("read", 2, 100, 0.5)
    tally.flow("read", 1, 300, 1.5)
    assert tally.flows["read"] == Flow(3, 400, 2.0)
    assert tally.flows["read"].bytes_per_s == 200
    assert Flow().bytes_per_s is None


def test_faults_are_counted_by_kind() -> None:
    """With the last one's words."""
    tally = Tally()
    tally.fault([Fault(FaultKind.IO, "a"), Fault(FaultKind.CHECKSUM, "b")], 1)
    tally.fault([Fault(FaultKind.IO, "c")])
    assert dict(tally.faults) == {"io": 2, "checksum": 1}
    assert (tally.last_fault, tally.dropped) == ("c", 1)


def test_cpu_is_that_of_busy_times() -> None:
    """Overlapping calls count once; nothing moved is no figure."""
    tally = Tally()
    assert tally.cpu_s_per_gib() is None
    with tally.busy(), tally.busy():
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
    tally.flow("read", 1, 1 << 30, 1.0)
    spent = tally.cpu_s_per_gib()
    assert spent is not None
    assert 0.05 <= spent < 1
    while time.process_time() < end + 0.05:
        pass
    assert tally.cpu_s_per_gib() == spent


def test_cold_says_why() -> None:
    """How many files were ignored, and for which reasons."""
    assert why_cold(1, [Ignored("a", "empty")]) is None
    assert why_cold(0, []) == "cold: no earlier blocks here"
    assert why_cold(0, [Ignored("a", "empty")]) == "cold: 1 file ignored: 1 empty"
    files = [Ignored("a", "empty"), Ignored("b", "version 0"), Ignored("c", "empty")]
    assert why_cold(0, files) == "cold: 3 files ignored: 2 empty; 1 version 0"
