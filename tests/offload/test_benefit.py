"""Hits that cost more than they save are called so."""

from __future__ import annotations

import pytest

from tiermem.offload import benefit
from tiermem.offload.benefit import Benefit


def test_a_slow_hit_is_called_so() -> None:
    """Checklist 28: 40 s to load what prefill computes in 0.9 s (ai-dynamo/dynamo#6101)."""
    slow = Benefit(loaded_tokens=4000, load_s=40.0, computed_tokens=4000, prefill_s=0.9)
    assert slow.saved_s == pytest.approx(-39.1)
    assert slow.warning is not None
    assert "loading takes 10000 us a token, computing 225" in slow.warning
    quick = Benefit(loaded_tokens=4000, load_s=0.5, computed_tokens=4000, prefill_s=0.9)
    assert (quick.warning, quick.saved_s) == (None, pytest.approx(0.4))


def test_a_few_tokens_say_nothing() -> None:
    """Below 256 tokens on either side there is no verdict, and without any no saving."""
    few = Benefit(loaded_tokens=255, load_s=40.0, computed_tokens=4000, prefill_s=0.9)
    assert few.warning is None
    assert Benefit(computed_tokens=5, prefill_s=1.0).saved_s is None
    assert Benefit(loaded_tokens=5, load_s=1.0).saved_s is None


def test_prefill_ends_where_the_next_forward_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may still be computing when the forward returns; decoding is not counted."""
    now = iter([10.0, 12.5])
    monkeypatch.setattr(benefit.time, "perf_counter", lambda: next(now))
    found = Benefit()
    found.computing(100)
    found.computing(1)
    found.computing(1)
    found.computed()
    assert (found.computed_tokens, found.prefill_s) == (100, 2.5)


def test_a_search_in_vain_is_no_load() -> None:
    """Only tokens that came count, with their seconds."""
    found = Benefit()
    found.loaded(0, 1.0)
    assert found.load_s == 0
    found.loaded(64, 0.5)
    assert (found.loaded_tokens, found.load_s) == (64, 0.5)
