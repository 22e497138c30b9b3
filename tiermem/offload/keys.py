"""What a block of KV cache is called: the same 16 bytes for the same content, everywhere.

A key names a whole prefix, not the tokens of one block alone:

    seed   = blake2b(layout: model, shapes, dtype, positions, codec, version of this scheme)
    key[0] = blake2b(seed   + the tokens of block 0)
    key[i] = blake2b(key[i - 1] + the tokens of block i)

Token ids are written as 8 bytes each, little endian, so that the key is the same in any process,
on any platform and under any hash seed. Two prompts share a key exactly if they agree on every
token up to the end of that block, under the same layout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

KEY_BYTES = 16
SCHEME = 1
"""Counted up when the bytes of a block or of a key come to mean something else."""


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Whose KV cache it is and how a block of it lies in memory.

    A block is [layers, 2, kv_heads, block_tokens, head_dim] elements of `dtype`, keys before
    values.

    model       what its weights and its configuration are (see `fingerprint.describe`)
    dtype       as torch writes it, without its module: float32, bfloat16
    positions   how the model encodes them, as its configuration has it
    codec       how the bytes are stored; `exact` is as they are
    """

    model: str
    layers: int
    kv_heads: int
    head_dim: int
    dtype: str
    element_bytes: int
    block_tokens: int
    positions: str
    codec: str = "exact"

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Of one block."""
        return (self.layers, 2, self.kv_heads, self.block_tokens, self.head_dim)

    @property
    def block_bytes(self) -> int:
        """Of one block."""
        return int(np.prod(self.shape)) * self.element_bytes

    @property
    def seed(self) -> bytes:
        """What the first key of every prefix starts from."""
        return digest(json.dumps(asdict(self), sort_keys=True).encode())

    @property
    def identity(self) -> str:
        """One line for a person, different for every layout; files are marked with it."""
        return (
            f"{self.model}, {self.layers} layers of {self.kv_heads} x {self.head_dim} "
            f"{self.dtype}, {self.block_tokens} tokens a block, {self.codec} "
            f"[{self.seed.hex()[:12]}]"
        )


def prefix_keys(seed: bytes, tokens: Sequence[int], block_tokens: int) -> list[bytes]:
    """The keys of the full blocks of `tokens`, first block first; a tail has no key.

    `seed` is that of a `KvLayout`, or the last key of the blocks before `tokens`.
    """
    data = np.asarray(tokens, dtype="<i8")
    assert data.ndim == 1, "one sequence, not a batch"
    keys, key = [], seed
    for start in range(0, len(data) - block_tokens + 1, block_tokens):
        key = digest(key + data[start : start + block_tokens].tobytes())
        keys.append(key)
    return keys


def digest(data: bytes) -> bytes:
    """16 bytes that stand for `data`."""
    return hashlib.blake2b(data, digest_size=KEY_BYTES, person=b"tiermem-kv-%d" % SCHEME).digest()
