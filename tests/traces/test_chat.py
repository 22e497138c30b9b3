"""Synthetic chat: what its turns share, and that its numbers are the ones it claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiermem.errors import InputError, UnknownName
from tiermem.traces import checks
from tiermem.traces.chat import Chat, chat
from tiermem.traces.summary import summarise


def test_ids_are_prefix_ids_with_tails_of_their_own() -> None:
    """An id has one place and one predecessor, ids are ceil(prompt / block), tails never recur."""
    trace = chat(requests=800, seed=2, block_tokens=64)
    assert checks.chain_notices(trace.block_ids, trace.block_offsets) == []
    counts = np.diff(trace.block_offsets)
    assert (counts == -(-trace.prompt_tokens // 64)).all()
    times = np.bincount(trace.block_ids)
    last = trace.block_ids[trace.block_offsets[1:] - 1]
    assert (times[last[trace.prompt_tokens % 64 > 0]] == 1).all()


def test_a_turn_repeats_the_one_before() -> None:
    """A next prompt is the last one, its answer and new text; it begins with the same blocks."""
    trace = chat(
        requests=400,
        seed=2,
        more_turns=0.9,
        burst_cv=1.0,
        sessions_per_s=1e-6,
        think_median_s=1.0,
        think_80_percent_s=2.0,
    )
    gaps_s = np.diff(trace.arrival_ns) / 1e9
    follows = np.flatnonzero(gaps_s < 1000) + 1  # sessions start some 10 days apart
    assert 300 < len(follows) < 390
    for turn in follows.tolist():
        before = turn - 1
        text = trace.prompt_tokens[before] + trace.output_tokens[before]
        assert trace.prompt_tokens[turn] > text
        assert gaps_s[before] >= trace.output_tokens[before] / 50 - 0.001
        full = int(trace.prompt_tokens[before]) // 512
        now, then = trace.blocks_of(turn).tolist(), trace.blocks_of(before).tolist()
        assert now[:full] == then[:full]
        assert not set(now[full:]) & set(then)


def test_sessions_share_their_system_prompt() -> None:
    """Sessions of one turn share the full blocks of one system prompt and nothing else."""
    trace = chat(
        requests=300,
        seed=4,
        system_prompts=1,
        more_turns=1e-9,
        system_tokens_min=2000,
        system_tokens_max=2000,
    )
    times = np.bincount(trace.block_ids)
    assert sorted(times[times > 1].tolist()) == [300, 300, 300]  # floor(2000 / 512) blocks
    assert trace.blocks_of(7)[:3].tolist() == [0, 1, 2]


def test_a_longer_trace_begins_with_the_shorter() -> None:
    """More requests of a seed change nothing about the first ones."""
    assert chat(requests=900, seed=6).head(250).digest == chat(requests=250, seed=6).digest


def test_bursts_are_as_bursty_as_asked() -> None:
    """One-turn sessions start at the rate and with the variation that were asked for."""
    for cv in (1.0, 2.28):
        trace = chat(requests=30_000, seed=5, more_turns=1e-9, burst_cv=cv, sessions_per_s=2.0)
        gaps_s = np.diff(trace.arrival_ns) / 1e9
        assert gaps_s.mean() == pytest.approx(0.5, rel=0.05)
        assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, rel=0.05)


def test_lengths_are_as_published() -> None:
    """Prompts and outputs resemble the counted ones; outputs are exponential (median = ln 2)."""
    summary = summarise(chat(requests=20_000, seed=8))
    assert summary["output_tokens"]["mean"] == pytest.approx(347, rel=0.03)
    assert summary["output_tokens"]["p50"] == pytest.approx(347 * np.log(2), rel=0.03)
    trace = chat(requests=3_000, seed=8, more_turns=1e-9)
    assert trace.prompt_tokens.max() > 8 * np.median(trace.prompt_tokens), "a heavy tail"


def test_every_request_fits_the_context() -> None:
    """Prompt and answer never exceed the context, however many documents and turns there are."""
    for context in (8_192, 32_768):
        trace = chat(
            requests=2_000,
            seed=3,
            context_tokens=context,
            system_tokens_max=2_000,
            tail_share=0.9,
            more_turns=0.95,
            output_mean_tokens=3_000.0,
        )
        assert (trace.prompt_tokens + trace.output_tokens).max() <= context


def test_the_metadata_says_how() -> None:
    """A chat trace is synthetic and carries every parameter and source."""
    trace = chat(requests=10, seed=1, burst_cv=3.0)
    assert trace.synthetic
    assert "synthetic" in trace.name
    assert trace.meta["parameters"]["burst_cv"] == 3.0
    assert trace.meta["parameters"]["seed"] == 1
    assert set(Chat.__dataclass_fields__) < set(trace.meta["parameters"])
    assert "ServeGen" in trace.meta["sources"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"requests": 0}, "requests: 0 is not at least 1"),
        ({"block_tokens": 0}, "block_tokens: 0 is not at least 1"),
        ({"burst_cv": 0.5}, "burst_cv: 0.5 is not in 1.0 .. 100.0"),
        ({"more_turns": 1.0}, "more_turns: 1.0 is not in"),
        ({"sessions_per_s": 0.0}, "sessions_per_s: 0.0 is not above 0"),
        ({"tail_alpha": float("nan")}, "tail_alpha: nan is not above 0"),
        ({"system_prompts": 2.5}, "system_prompts: 2.5 is not a whole number"),
        ({"burst_cv": "two"}, "burst_cv: 'two' is not a number"),
        ({"sessions_per_s": 1e-6, "requests": 60_000}, "the trace exceeds 292 years"),
        ({"context_tokens": 4096}, "system_tokens_max: 24760 is not in 64 .. 1024"),
    ],
)
def test_impossible_loads_are_named(parameters: dict[str, Any], words: str) -> None:
    """A parameter out of range is an InputError with its key and the range."""
    with pytest.raises(InputError) as error:
        chat(**{"requests": 10, "seed": 1, **parameters})
    assert words in str(error.value)


def test_a_misspelt_parameter_is_named() -> None:
    """The nearest parameter is in the message."""
    with pytest.raises(UnknownName, match="'burst_vc'; did you mean 'burst_cv'"):
        chat(requests=10, seed=1, burst_vc=2.0)
