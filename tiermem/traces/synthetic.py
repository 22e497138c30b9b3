"""Traces that are made up: synthetic, said so in their flag, name and metadata.

Every draw is the inverse of a distribution function at `Generator.random()`, one named stream
per purpose, so that a seed means the same trace in any process and a longer trace of the same
seed begins with the shorter one. Arrival times are whole ms, as the Mooncake format has them.
"""

from __future__ import annotations

import math

import numpy as np

from tiermem import seeds
from tiermem.errors import InputError
from tiermem.traces.chat import Chat, chat
from tiermem.traces.trace import Trace
from tiermem.units import NS_PER_MS, NS_PER_S

__all__ = ["Chat", "chat", "uniform"]

_TOKENS_MAX = 2**31 - 1


def uniform(
    *,
    requests: int,
    prompt_tokens: int,
    output_tokens: int,
    rate_per_s: float,
    seed: int,
    block_tokens: int = 512,
) -> Trace:
    """`requests` equal requests with unique prompts (nothing to reuse) and Poisson arrivals.

    The first arrives at 0; the gaps are exponential with mean 1 / rate_per_s, and arrival times
    are rounded down to whole ms.
    """
    _check_counts(requests=requests, prompt_tokens=prompt_tokens, block_tokens=block_tokens)
    _check_counts(output_tokens=output_tokens)
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise InputError(f"{rate_per_s} is not a rate above 0", key="rate_per_s")
    draws = seeds.stream(seed, "uniform/arrivals").random(requests)
    gaps_s = -np.log1p(-draws) / rate_per_s
    gaps_s[0] = 0.0
    arrival_s = np.cumsum(gaps_s)
    if arrival_s[-1] * NS_PER_S >= 2**63:
        raise InputError(f"{rate_per_s} is too low: the trace exceeds 292 years", key="rate_per_s")
    blocks = -(-prompt_tokens // block_tokens)
    return Trace(
        name=f"synthetic-uniform-{requests}",
        block_tokens=block_tokens,
        arrival_ns=np.floor(arrival_s * 1000).astype(np.int64) * NS_PER_MS,
        prompt_tokens=np.full(requests, prompt_tokens, dtype=np.int64),
        output_tokens=np.full(requests, output_tokens, dtype=np.int64),
        block_ids=np.arange(requests * blocks, dtype=np.int64),
        block_offsets=np.arange(requests + 1, dtype=np.int64) * blocks,
        synthetic=True,
        meta={
            "generator": "uniform",
            "parameters": {
                "requests": requests,
                "prompt_tokens": prompt_tokens,
                "output_tokens": output_tokens,
                "rate_per_s": rate_per_s,
                "seed": seed,
                "block_tokens": block_tokens,
            },
        },
    )


def _check_counts(**numbers: int) -> None:
    for key, number in numbers.items():
        if not 1 <= number <= _TOKENS_MAX:
            raise InputError(f"{number} is not in 1 .. {_TOKENS_MAX}", key=key)
