"""Named tensors: found again by later processes, replaced whole, and refused by name."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tiermem.errors import InputError
from tiermem.offload.memory import TieredMemory

Make = Callable[..., TieredMemory]

WRITE = """
import os, signal, sys, torch
from tiermem.offload.memory import TieredMemory
memory = TieredMemory("64 KiB", sys.argv[1], "16 MiB", identity="mistralai/Mistral-7B: a")
for number in range(20):
    memory.put(torch.full((3000,), float(number), dtype=torch.bfloat16), name=f"layer/{number}")
memory.flush()
for number in range(3):
    memory.put(torch.full((7,), float(number)), name="layer/0")
os.kill(os.getpid(), signal.SIGKILL)
"""
IDENTITY = "mistralai/Mistral-7B: a"


def test_found_by_a_later_process_after_a_kill(make: Make, tmp_path: Path) -> None:
    """known_faults 84 and 85: whatever the hash seed; what was flushed is whole."""
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    words = [sys.executable, "-c", WRITE, str(tmp_path / "disk")]
    killed = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    memory = make("64 KiB", "16 MiB", identity=IDENTITY)
    for number in range(20):
        handle = memory.find(f"layer/{number}")
        assert handle is not None
        if number == 0 and handle.dtype is torch.float32:
            continue  # what was put later had reached the disk by itself
        assert handle.load().equal(torch.full((3000,), float(number), dtype=torch.bfloat16))
    assert memory.find("layer/20") is None


def test_another_identity_finds_nothing(make: Make) -> None:
    """A tensor of another model or layout is not this one, whatever its name."""
    one = make("64 KiB", "16 MiB", identity=IDENTITY)
    one.put(torch.ones(3), name="w")
    one.close()
    other = make("64 KiB", "16 MiB", identity="another")
    assert other.find("w") is None
    other.close()
    again = make("64 KiB", "16 MiB", identity=IDENTITY)
    assert again.find("w") is not None


def test_put_again_replaces(make: Make) -> None:
    """The name means the newer tensor, whatever its layout; the older one gives its room back."""
    memory = make("64 KiB", "16 MiB")
    memory.put(torch.zeros(8000), name="w")
    held = memory.ledger.nbytes
    memory.put(torch.arange(5), name="w")
    memory.put(torch.arange(6), name="w")
    memory.flush()
    assert memory.ledger.nbytes < held
    for _ in range(2):
        found = memory.find("w")
        assert found is not None
        assert found.load().equal(torch.arange(6))
        memory.flush()
    memory.close()
    memory = make("64 KiB", "16 MiB")
    found = memory.find("w")
    assert found is not None
    assert (found.name, found.shape, found.dtype) == ("w", (6,), torch.int64)
    assert found.load().equal(torch.arange(6))


def test_a_name_lives_longer_than_its_handle(make: Make) -> None:
    """A named tensor goes when it is freed, and not with the last reference."""
    memory = make("64 KiB", "16 MiB")
    memory.put(torch.ones(3), name="w")
    gc.collect()
    handle = memory.find("w")
    assert handle is not None
    handle.free()
    assert memory.find("w") is None
    assert memory.ledger.nbytes == 0
    memory.close()
    assert make("64 KiB", "16 MiB").find("w") is None


@pytest.mark.parametrize("name", ["a/b", "..", "a:b", "x" * 300, "ключ 鍵", "nul\0"])
def test_any_text_is_a_name(make: Make, name: str, tmp_path: Path) -> None:
    """known_faults 86: it never becomes part of a path."""
    memory = make("64 KiB", "16 MiB")
    memory.put(torch.ones(2), name=name)
    memory.close()
    found = make("64 KiB", "16 MiB").find(name)
    assert found is not None
    assert found.load().tolist() == [1.0, 1.0]
    assert {path.name for path in tmp_path.iterdir()} == {"disk"}


def test_another_codec_is_refused_by_name(make: Make) -> None:
    """known_faults 89: what was quantised is not given to who asked for exact bits, nor to who
    asked for another codec; what is exact may be read by anyone."""
    memory = make("64 KiB", "16 MiB", codec="int8")
    memory.put(torch.linspace(0, 1, 100), name="w")
    memory.put(torch.arange(3), name="exact")
    memory.close()
    for codec in (None, "nf4"):
        memory = make("64 KiB", "16 MiB", codec=codec)
        with pytest.raises(InputError, match=f"'w' was stored with codec 'int8'.*{codec}"):
            memory.find("w")
        assert memory.find("exact") is not None
        memory.close()
    found = make("64 KiB", "16 MiB", codec="int8").find("w")
    assert found is not None
    assert (found.load() - torch.linspace(0, 1, 100)).abs().max() < 1 / 254
