"""Memories of a few MiB over a disk, and tensors of random bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tiermem.offload.memory import TieredMemory

Make = Callable[..., TieredMemory]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """`make(host, disk_bytes, **settings)`: a memory, closed at the end; without `disk_bytes` it
    has no disk."""
    made: list[TieredMemory] = []

    def build(host: str = "1 MiB", disk_bytes: str | None = None, **settings: Any) -> TieredMemory:
        disk = settings.pop("disk", tmp_path / "disk") if disk_bytes else None
        made.append(TieredMemory(host, disk, disk_bytes, **settings))
        return made[-1]

    yield build
    for memory in made:
        memory.close()


@pytest.fixture
def some() -> Callable[..., torch.Tensor]:
    """`some(dtype, count, seed)`: random bytes as elements; for bool only those it can have."""

    def build(dtype: torch.dtype, count: int, seed: int = 20) -> torch.Tensor:
        random = torch.Generator().manual_seed(seed)
        data = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=random)
        return ((data & 1) if dtype is torch.bool else data).view(dtype)

    return build


@pytest.fixture(scope="session")
def tiny() -> Iterator[Callable[..., Any]]:
    """`tiny(seed=0, **config)`: a Llama of three layers with random weights, in evaluation mode,
    on one thread: sharing work this small takes longer than doing it."""
    transformers = pytest.importorskip("transformers")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def build(seed: int = 0, **changes: Any) -> Any:
        sizes = {
            "vocab_size": 97,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "pad_token_id": 0,
        }
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(**{**sizes, **changes})
        return transformers.LlamaForCausalLM(config).eval()

    yield build
    torch.set_num_threads(threads)
