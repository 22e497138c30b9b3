"""Pinning where there is CUDA, and what is said where it cannot be."""

from __future__ import annotations

import resource
import sys
from typing import Any

import pytest

from tiermem.runtime import pinned
from tiermem.runtime.host import HostArena

MIB = 2**20


class Cudart:
    """CUDA's run time, as far as pinning goes."""

    cudaError = int  # noqa: N815

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.calls: list[tuple[str, Any]] = []

    def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:  # noqa: N802
        self.calls.append(("register", (nbytes, flags)))
        return self.answer

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        self.calls.append(("unregister", None))
        return 0

    def cudaGetErrorString(self, error: int) -> str:  # noqa: N802
        return "out of memory"


def with_cuda(monkeypatch: pytest.MonkeyPatch, answer: int) -> Cudart:
    torch = pytest.importorskip("torch")
    cudart = Cudart(answer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cudart)
    return cudart


def test_registers_exactly_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """One registration of 65 MiB, ended once, by close."""
    cudart = with_cuda(monkeypatch, 0)
    arena = HostArena(65 * MIB, pin=True)
    assert arena.warnings == []
    assert arena.pinned_bytes == 65 * MIB
    arena.close()
    arena.close()
    assert arena.pinned_bytes == 0
    assert [call for call, _ in cudart.calls] == ["register", "unregister"]
    assert cudart.calls[0][1] == (65 * MIB, 1)


def test_an_arena_that_nobody_closed_is_unpinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned bytes do not leak with a forgotten arena."""
    cudart = with_cuda(monkeypatch, 0)
    arena = HostArena(MIB, pin=True)
    del arena
    assert [call for call, _ in cudart.calls] == ["register", "unregister"]


def test_a_child_of_a_fork_leaves_cuda_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent's registration is the parent's to end."""
    cudart = with_cuda(monkeypatch, 0)
    arena = HostArena(MIB, pin=True)
    monkeypatch.setattr("tiermem.runtime.host.os.getpid", lambda: -5)
    arena.close()
    assert [call for call, _ in cudart.calls] == ["register"]


def test_a_refusal_says_pinned_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much, why, and which setting; the arena is there all the same, pageable."""
    with_cuda(monkeypatch, 2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 * 1024, 64 * 1024))
    arena = HostArena(3 * MIB, pin=True)
    assert arena.pinned_bytes == 0
    (said,) = arena.warnings
    for part in (
        "3 MiB of pinned host memory",
        "out of memory",
        "RLIMIT_MEMLOCK is 64 KiB",
        "ulimit -l",
        "pageable",
    ):
        assert part in said
    assert arena.allocate(MIB) is not None


def test_without_cuda_or_torch_it_is_pageable(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU-only machines work, and are told."""
    monkeypatch.setitem(sys.modules, "torch", None)
    said = pinned.pin(0, MIB).warning
    assert said is not None
    assert "1 MiB of pinned host memory could not be had: torch is not installed" in said


def test_locking_is_asked_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """mlock keeps the arena out of swap; a refusal names the limit."""
    assert HostArena(4096, lock=True).warnings == []

    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(pinned, "lock_pages", refuse)
    (said,) = HostArena(MIB, lock=True).warnings
    assert "1 MiB of host memory could not be locked" in said
    assert "RLIMIT_MEMLOCK" in said
