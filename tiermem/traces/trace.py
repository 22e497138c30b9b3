"""A trace: who asked when, for how many tokens, and which blocks each prompt is made of.

This is the one value that every reader and generator makes and that hits, simulator and reports
take. It knows nothing of files, of tiers or of what a block costs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from tiermem.errors import InputError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in the order of their arrival; all arrays are read-only int64.

    name            what to call it in tables and figures
    block_tokens    tokens that one block id stands for
    arrival_ns      [n] sorted, the first is 0; equal times keep the order of the source
    prompt_tokens   [n] at least 1
    output_tokens   [n] at least 0
    block_ids       [m] dense: 0, 1, 2, ... in the order in which ids are first seen
    block_offsets   [n + 1] request i owns block_ids[block_offsets[i]:block_offsets[i + 1]]
    synthetic       made up rather than recorded; every figure of it has to say so
    digest          of the content: the arrays and block_tokens, not the name or the file format
    meta            where it comes from, JSON-able
    notices         what a reader of the results should know about the input, one line each

    Each request has ceil(prompt_tokens / block_tokens) ids, the last of which covers the tokens
    that are left over, or floor(...) ids: then the tail of the prompt has no id and no identity.
    """

    name: str
    block_tokens: int
    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    block_ids: Ints
    block_offsets: Ints
    synthetic: bool
    digest: str = field(default="", kw_only=True)
    meta: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    notices: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        n = len(self.arrival_ns)
        for array in self._arrays():
            assert array.dtype == np.int64
            assert array.ndim == 1
            array.setflags(write=False)
        assert n > 0, "a trace has at least one request"
        assert self.block_tokens > 0
        assert len(self.prompt_tokens) == len(self.output_tokens) == n
        assert len(self.block_offsets) == n + 1
        assert self.arrival_ns[0] == 0
        assert bool((np.diff(self.arrival_ns) >= 0).all()), "arrivals are sorted"
        assert int(self.prompt_tokens.min()) >= 1
        assert int(self.output_tokens.min()) >= 0
        counts = np.diff(self.block_offsets)
        full = self.prompt_tokens // self.block_tokens
        assert self.block_offsets[0] == 0
        assert self.block_offsets[-1] == len(self.block_ids)
        tail = self.prompt_tokens % self.block_tokens > 0
        assert bool(((counts == full) | (counts == full + tail)).all()), "ids match prompt lengths"
        if len(self.block_ids):
            seen = np.maximum.accumulate(self.block_ids)
            assert self.block_ids[0] == 0
            assert int(self.block_ids.min()) == 0
            assert bool((np.diff(seen) <= 1).all()), "ids are dense in first-seen order"
        if not self.digest:
            object.__setattr__(self, "digest", self._content_digest())

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def references(self) -> int:
        """Block references of all requests together."""
        return len(self.block_ids)

    @property
    def unique_blocks(self) -> int:
        """Distinct blocks: what a cache that never forgets would hold in the end."""
        return int(self.block_ids.max()) + 1 if len(self.block_ids) else 0

    @property
    def largest_request_blocks(self) -> int:
        """Ids of the request that has most of them."""
        return int(np.diff(self.block_offsets).max())

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last."""
        return int(self.arrival_ns[-1])

    def blocks_of(self, request: int) -> Ints:
        """The ids of one request, first block of the prompt first (a read-only view)."""
        return self.block_ids[self.block_offsets[request] : self.block_offsets[request + 1]]

    def head(self, requests: int) -> Trace:
        """The first `requests` requests. InputError when the trace has fewer."""
        if not 1 <= requests <= len(self):
            raise InputError(
                f"{requests} requests asked for, the trace {self.name!r} has {len(self)}"
            )
        end = int(self.block_offsets[requests])
        return replace(
            self,
            arrival_ns=self.arrival_ns[:requests],
            prompt_tokens=self.prompt_tokens[:requests],
            output_tokens=self.output_tokens[:requests],
            block_ids=self.block_ids[:end],
            block_offsets=self.block_offsets[: requests + 1],
            meta={**self.meta, "head_requests": requests},
            digest="",
        )

    def stretched(self, factor: float) -> Trace:
        """The same requests with every arrival time multiplied by `factor`: 2 halves the rate."""
        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"arrival times cannot be multiplied by {factor}: it must be above 0")
        if self.duration_ns * factor >= 2**63:
            raise InputError(f"arrival times multiplied by {factor} exceed 292 years")
        whole = float(factor).is_integer()
        arrival_ns = (
            self.arrival_ns * int(factor)
            if whole
            else np.rint(self.arrival_ns * float(factor)).astype(np.int64)
        )
        return replace(
            self,
            arrival_ns=arrival_ns,
            meta={**self.meta, "stretched": self.meta.get("stretched", 1) * factor},
            digest="",
        )

    def _arrays(self) -> tuple[Ints, ...]:
        lengths = (self.prompt_tokens, self.output_tokens)
        return (self.arrival_ns, *lengths, self.block_ids, self.block_offsets)

    def _content_digest(self) -> str:
        digest = xxhash.xxh3_128(f"{self.block_tokens}/{len(self)}/{self.references}/".encode())
        for array in self._arrays():
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        return f"xxh3:{digest.hexdigest()}"


def intern(ids: Sequence[Hashable]) -> Ints:
    """Dense numbers 0, 1, 2, ... for `ids`, in the order in which they are first seen.

    An id is a name, never a number to compute with: integers of any size and texts keep their
    exact identity, and the integer 5 is not the text "5".
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    return np.fromiter(map(numbers.__getitem__, ids), dtype=np.int64, count=len(ids))


def renumber(block_ids: Ints) -> Ints:
    """`intern` for ids that are integers below 2**63 already, in array code."""
    _, first, inverse = np.unique(block_ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def take(block_ids: Ints, block_offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Ids and offsets of the requests `order`, in that order; the ids keep their values."""
    counts = np.diff(block_offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    shift = np.repeat(block_offsets[:-1][order] - offsets[:-1], counts)
    return block_ids[np.arange(offsets[-1]) + shift], offsets
