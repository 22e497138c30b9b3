"""Tiers and their compute: the rates of a group follow from one device by multiplication."""

from __future__ import annotations

import pytest

from tiermem.models.tier import Compute, Tier


def compute(**changes: float) -> Compute:
    numbers = {
        "flops_per_s": 1000.0,
        "bytes_per_s": 100.0,
        "devices": 1,
        "gemm_efficiency": 0.5,
        "attention_efficiency": 0.25,
        "bandwidth_efficiency": 0.8,
        "kernel_ns": 3000,
        "parallel_efficiency": 1.0,
    }
    return Compute(**{**numbers, **changes})  # type: ignore[arg-type]


def test_one_device_reaches_its_share_of_each_peak() -> None:
    """Efficiencies multiply the peak of their own kind of work and no other."""
    one = compute()
    assert one.gemm_flops_per_s == pytest.approx(500)
    assert one.attention_flops_per_s == pytest.approx(250)
    assert one.memory_bytes_per_s == pytest.approx(80)


def test_a_group_multiplies_rates_and_loses_its_parallel_efficiency() -> None:
    """Four devices at 0.9 together do 3.6 times as much, and launch no faster."""
    four = compute(devices=4, parallel_efficiency=0.9)
    assert four.gemm_flops_per_s == pytest.approx(3.6 * 500)
    assert four.attention_flops_per_s == pytest.approx(3.6 * 250)
    assert four.memory_bytes_per_s == pytest.approx(3.6 * 80)
    assert four.kernel_ns == 3000


@pytest.mark.parametrize(
    "changes", [{"gemm_efficiency": 1.1}, {"bandwidth_efficiency": 0.0}, {"devices": 0}]
)
def test_impossible_compute_is_a_mistake_of_ours(changes: dict[str, float]) -> None:
    """User input is checked before; a share above one here is an assertion."""
    with pytest.raises(AssertionError):
        compute(**changes)


def test_every_tier_has_room() -> None:
    """A tier without capacity cannot be made (known fault 145: a tier that never evicted)."""
    with pytest.raises(AssertionError):
        Tier("nvme", "nvme", 0, 1.0, 1.0, 0)
