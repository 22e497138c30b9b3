"""Short forms of the crash and soak suites; the long ones are commands:

python tests/runtime/file/crashes.py --kills 200
python tests/runtime/file/soak.py --seconds 600
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KILLS = os.environ.get("TIERMEM_KILLS", "20")
SOAK_SECONDS = os.environ.get("TIERMEM_SOAK_SECONDS", "20")


def command(name: str, *options: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / name), *options], capture_output=True, text=True, timeout=280
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_kill_9(tmp_path: Path) -> None:
    """LMCache, killed before its first checkpoint: 0 of 8 blocks. Here: every durable block, whole,
    and none that was not acknowledged."""
    command("crashes.py", "--kills", KILLS, "--seed", "1", "--folder", str(tmp_path))


@pytest.mark.slow
def test_threads(tmp_path: Path) -> None:
    """8 writers, 8 readers, random clears, checksums on everything: no error, no leak."""
    command("soak.py", "--seconds", SOAK_SECONDS, "--seed", "1", "--folder", str(tmp_path))
