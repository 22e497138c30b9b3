"""Which differences between runs are more than noise."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiermem.report import evidence

Make = Callable[..., Any]


def test_a_constant_difference_has_no_spread() -> None:
    """Every draw of equal values has their value as its mean."""
    assert evidence.interval(np.full(700, 0.25), 0) == pytest.approx((0.25, 0.25))
    assert evidence.interval(np.array([0.25]), 0) is None


def test_independent_values_have_the_interval_of_their_mean() -> None:
    """Without dependence it is mean +- 1.96 standard errors, within the error of 30 stretches."""
    values = np.random.default_rng(5).normal(1.0, 2.0, 9000)
    low, high = evidence.interval(values, 0) or (0.0, 0.0)
    error = 2.0 / np.sqrt(9000)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.4)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.3 * error)


def test_values_that_cling_together_are_worth_fewer() -> None:
    """Runs of 100 equal values: ten times wider than if all were independent, not as narrow."""
    values = np.repeat(np.random.default_rng(5).normal(0.0, 2.0, 90), 100)
    low, high = evidence.interval(values, 0) or (0.0, 0.0)
    independent = 2 * 1.96 * 2.0 / np.sqrt(9000)
    assert high - low > 5 * independent


def test_the_interval_is_the_seeds_alone_and_fast() -> None:
    """Same seed, same interval; another seed moves it little; 100,000 requests are no wait."""
    values = np.random.default_rng(5).normal(1.0, 2.0, 100_000)
    begun = time.perf_counter()
    one = evidence.interval(values, 3)
    assert time.perf_counter() - begun < 0.5
    assert evidence.interval(values, 3) == one
    assert evidence.interval(values, 4) == pytest.approx(one, abs=0.01)


def run(small: Make, policy: str, *ttft_s: float | None) -> Any:
    """A run of requests a second apart; None: no first token."""
    rows = []
    for place, span in enumerate(ttft_s):
        row: dict[str, Any] = {"arrival_ns": place * 10**9, "state": "unfinished"}
        if span is not None:
            at = place * 10**9 + int(span * 1e9)
            row |= {"state": "completed", "first_token_ns": at, "last_token_ns": at}
        rows.append(row)
    return small(rows, policy=policy)


def test_requests_are_paired(small: Make) -> None:
    """Only what both served is compared: 2 - 1 and 5 - 4 are 1 s each, however much they vary."""
    found = evidence.weigh([run(small, "b", 2, None, 5), run(small, "a", 1, 9, 4)], 0)["mean_ttft"]
    assert found["lowest"] == "b", "3.5 s over what it served, a has 4.67 s"
    (other,) = found["against"]
    assert (other["policy"], other["pairs"]) == ("a", 2)
    assert other["difference_s"] == pytest.approx(-1.0)
    assert not other["beyond_noise"]


def test_others_stand_in_the_order_of_their_means(small: Make) -> None:
    """A clear difference is beyond noise, half a per cent never is."""
    runs = [run(small, "far", 3, 3, 3), run(small, "near", 1.005, 1.005, 1.005)]
    found = evidence.weigh([*runs, run(small, "best", 1, 1, 1)], 0)["mean_ttft"]
    assert found["lowest"] == "best"
    assert [(o["policy"], o["beyond_noise"]) for o in found["against"]] == [
        ("near", False),
        ("far", True),
    ]


def test_one_policy_is_not_compared(small: Make) -> None:
    """Nothing to compare: no comparison."""
    assert evidence.weigh([run(small, "a", 1, 2)], 0)["mean_ttft"] is None
    assert evidence.weigh([run(small, "a", 1), run(small, "b", None)], 0)["mean_ttft"] is None
