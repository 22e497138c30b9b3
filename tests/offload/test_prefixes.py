"""Blocks of KV out of a memory and into it: what is stored is a prefix, or it is a miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tiermem.errors import DoesNotFit, TimedOut
from tiermem.offload.keys import KvLayout, prefix_keys
from tiermem.offload.memory import TieredMemory
from tiermem.offload.prefixes import BlockCounts, Prefixes
from tiermem.runtime.stores import Fault, FaultKind

Make = Callable[..., TieredMemory]

LAYOUT = KvLayout("test", 2, 2, 32, "float32", 4, 16, "{}")  # 16 KiB a block
KEYS = prefix_keys(LAYOUT.seed, range(20 * 16), 16)


def block(index: int) -> torch.Tensor:
    """KV that only this block has."""
    random = torch.Generator().manual_seed(index)
    return torch.randn(LAYOUT.shape, generator=random)


def is_prefix(kv: torch.Tensor, blocks: int) -> bool:
    """Whether `kv` is the first so many blocks, bit by bit."""
    wanted = [block(index)[:, :, None] for index in range(blocks)]
    return kv.shape[-2] == blocks * 16 and (not wanted or kv.equal(torch.cat(wanted, dim=-2)))


@pytest.mark.parametrize("host", ["16 KiB", "32 KiB", "80 KiB", "1 MiB"])
def test_a_prefix_larger_than_the_host_comes_back(make: Make, host: str) -> None:
    """Twenty blocks of 16 KiB through an arena of one, two, five or all of them."""
    prefixes = Prefixes(make(host, "4 MiB"), LAYOUT)
    prefixes.store(KEYS, 0, block)
    assert is_prefix(prefixes.fetch(KEYS), 20)
    assert is_prefix(prefixes.fetch(KEYS[:7]), 7)
    assert prefixes.counts == BlockCounts(loaded=27, stored=20)


def test_only_what_is_missing_is_written(make: Make) -> None:
    """Two requests that share a beginning store it once."""
    memory = make("1 MiB")
    one, other = Prefixes(memory, LAYOUT), Prefixes(memory, LAYOUT)
    one.store(KEYS[:5], 0, block)
    other.store(KEYS[:8], 3, block)
    assert (one.counts.stored, other.counts.stored) == (5, 3)
    assert is_prefix(other.fetch(KEYS), 8)


def test_another_prefix_finds_nothing(make: Make) -> None:
    """One other token in the first block: no block of it is known."""
    prefixes = Prefixes(make("1 MiB"), LAYOUT)
    prefixes.store(KEYS, 0, block)
    others = prefix_keys(LAYOUT.seed, [1, *range(1, 320)], 16)
    assert prefixes.fetch(others).shape == (2, 2, 1, 2, 0, 32)


def test_the_head_stays_longest(make: Make) -> None:
    """Without a disk, in an arena of four blocks, the blocks that stay are usable: a full cache of
    tails without their head serves nobody (LMCache #4867)."""
    memory = make("64 KiB")
    prefixes = Prefixes(memory, LAYOUT)
    prefixes.store(KEYS, 0, block)
    assert prefixes.fetch(KEYS).shape[-2] >= 2 * 16


@pytest.mark.parametrize("kind", [FaultKind.CHECKSUM, FaultKind.IO, FaultKind.TIMEOUT])
def test_a_block_that_cannot_be_read_ends_the_prefix(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    """A fault while loading is a miss from there on, and is counted; what came before is right."""
    memory = make("1 MiB", "4 MiB")
    prefixes = Prefixes(memory, LAYOUT)
    prefixes.store(KEYS, 0, block)
    memory.flush()
    memory.clear("dram")
    store: Any = memory.runtime.inventory.files["nvme"]
    read = store.read

    def broken(items: Any) -> list[Fault | None]:
        bad = Fault(kind, "as the test says")
        return [bad if item[0] == KEYS[11] else read([item])[0] for item in items]

    monkeypatch.setattr(store, "read", broken)
    assert is_prefix(prefixes.fetch(KEYS), 11)
    assert prefixes.counts == BlockCounts(loaded=11, stored=20, lost=9)


def test_a_memory_that_is_held_by_others_is_a_miss(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room in time: nothing is loaded or stored, nothing is raised."""
    memory = make("1 MiB")
    prefixes = Prefixes(memory, LAYOUT)
    prefixes.store(KEYS[:2], 0, block)

    def late(*_: Any, **__: Any) -> None:
        raise TimedOut("as the test says")

    monkeypatch.setattr(memory.runtime, "acquire", late)
    assert prefixes.fetch(KEYS).shape[-2] == 0
    prefixes.store(KEYS, 2, block)
    assert prefixes.counts == BlockCounts(stored=2, lost=2, unstored=18)


def test_a_block_that_never_fits_is_refused(make: Make) -> None:
    """At once, with both sizes: an arena of less than one block could never serve."""
    with pytest.raises(DoesNotFit, match=r"16,384 bytes .* has 8,192"):
        Prefixes(make("8 KiB", "1 MiB"), LAYOUT)


def test_a_codec_stores_less_and_says_so(make: Make) -> None:
    """int8 blocks take a quarter, come back within the bound, and what is not finite is not
    stored."""
    memory = make("1 MiB", codec="int8")
    prefixes = Prefixes(memory, LAYOUT)
    prefixes.store(KEYS[:3], 0, block)
    kv = prefixes.fetch(KEYS)
    assert kv.shape[-2] == 48
    assert memory.codec is not None
    gap = (kv[:, :, 0, :, 16:32] - block(1)).abs()
    assert bool((gap <= memory.codec.bound(block(1))).all())
    assert bool(gap.any())
    prefixes.store(KEYS[:4], 3, lambda index: block(index) / 0)
    assert prefixes.counts.unstored == 1
