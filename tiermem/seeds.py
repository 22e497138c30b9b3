"""Named random streams from one seed, so that a draw added in one place moves nothing elsewhere."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """The generator called `name` of run `seed`: the same numbers in any process, on any day."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
