"""Uniform traces: unique prompts, Poisson arrivals."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tiermem.errors import InputError
from tiermem.traces.synthetic import uniform
from tiermem.traces.trace import Trace


def load(requests: int = 20_000, seed: int = 3, rate_per_s: float = 5.5) -> Trace:
    return uniform(
        requests=requests, prompt_tokens=1155, output_tokens=211, rate_per_s=rate_per_s, seed=seed
    )


def test_nothing_is_shared() -> None:
    """Every request has ceil(1155 / 512) = 3 blocks of its own."""
    trace = load(100)
    assert trace.synthetic
    assert (trace.references, trace.unique_blocks) == (300, 300)
    assert set(trace.prompt_tokens.tolist()) == {1155}
    assert set(trace.output_tokens.tolist()) == {211}


def test_arrivals_are_poisson() -> None:
    """Gaps have mean 1/5.5 s and a coefficient of variation of 1; a third exceeds the mean."""
    trace = load()
    gaps_s = np.diff(trace.arrival_ns) / 1e9
    assert gaps_s.mean() == pytest.approx(1 / 5.5, rel=0.02)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1, rel=0.02)
    assert (gaps_s > 1 / 5.5).mean() == pytest.approx(np.exp(-1), abs=0.01)
    assert not (trace.arrival_ns % 1_000_000).any(), "whole ms, as the format has them"


def test_a_seed_is_a_trace() -> None:
    """Equal seeds give equal traces, also under another hash seed; other seeds give others."""
    code = (
        "from tiermem.traces.synthetic import uniform as u, chat;"
        "print(u(requests=50, prompt_tokens=9, output_tokens=2, rate_per_s=1.0, seed=3).digest,"
        "chat(requests=50, seed=3).digest)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert load(50).digest == load(50).digest != load(50, seed=4).digest


def test_a_longer_trace_begins_with_the_shorter() -> None:
    """More requests of a seed change nothing about the first ones."""
    assert load(500).head(120).digest == load(120).digest


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("requests", 0),
        ("prompt_tokens", -1),
        ("output_tokens", 0),
        ("output_tokens", 10**30),
        ("block_tokens", 0),
        ("rate_per_s", 0.0),
        ("rate_per_s", float("nan")),
        ("rate_per_s", float("inf")),
        ("rate_per_s", 1e-15),
    ],
)
def test_impossible_loads_are_named(key: str, value: float) -> None:
    """A count below one or a rate that is no rate is an InputError with its key."""
    good = {"requests": 9, "prompt_tokens": 5, "output_tokens": 5, "rate_per_s": 1.0, "seed": 1}
    with pytest.raises(InputError, match=f"^{key}: "):
        uniform(**{**good, key: value})  # type: ignore[arg-type]
