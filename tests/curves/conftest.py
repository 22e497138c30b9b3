"""Small streams, and naive caches that answer by search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

Requests = Sequence[Sequence[int]]
Arrays = tuple[Any, Any]


@pytest.fixture(scope="session")
def stream() -> Callable[[Requests], Arrays]:
    """Requests, each a list of ids, as (block_ids, block_offsets) with dense ids."""

    def make(requests: Requests) -> Arrays:
        dense: dict[int, int] = {}
        ids = [dense.setdefault(block, len(dense)) for blocks in requests for block in blocks]
        offsets = np.cumsum([0, *map(len, requests)])
        return np.array(ids, dtype=np.int64), offsets.astype(np.int64)

    return make


@pytest.fixture(scope="session")
def naive_lru() -> Callable[[Requests, int, str], list[bool]]:
    """The definitions of both orders word by word, with a list: least recent first."""

    def run(requests: Requests, capacity: int, order: str) -> list[bool]:
        cache: list[int] = []
        hits = []
        for blocks in requests:
            if order == "reverse":
                hits += [block in cache for block in blocks]
            for block in blocks if order == "forward" else blocks[::-1]:
                if order == "forward":
                    hits.append(block in cache)
                if block in cache:
                    cache.remove(block)
                cache.append(block)
                if len(cache) > capacity:
                    cache.pop(0)
        return hits

    return run
