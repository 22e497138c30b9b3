"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

from tiermem.offload.heap import trim

HOLES = """
import resource
from pathlib import Path
from tiermem.offload.heap import trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

held = [bytearray(100_000) for _ in range(800)]  # below the threshold of a mapping of its own
held[:-1] = []
before = resident()
trim()
print(before - resident())
"""


def test_holes_below_what_lives_are_returned() -> None:
    """Tens of MiB that are free and stay resident, until they are asked for."""
    ended = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) > 20_000_000
    assert trim() in (True, False)
