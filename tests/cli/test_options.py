"""Text of options becomes values, or an error that names the option."""

from __future__ import annotations

import pytest

from tiermem.cli import options
from tiermem.errors import InputError


def test_lists_are_split_at_commas() -> None:
    """A repeatable option takes several values by commas, repetitions, or both."""
    assert options.split(["lru, fifo", "lfu"], "--policy") == ["lru", "fifo", "lfu"]
    assert options.split([], "--policy") == []


@pytest.mark.parametrize("texts", [["lru,"], [""], ["a,,b"], ["a", "a"], ["a,b,a"]])
def test_empty_and_repeated_values_are_refused(texts: list[str]) -> None:
    """Neither nothing nor the same thing twice is passed on."""
    with pytest.raises(InputError, match="--policy: "):
        options.split(texts, "--policy")


def test_capacities_by_tier() -> None:
    """TIER=SIZE, each in the unit it says."""
    found = options.capacities(["dram=64GiB,cxl = 1 TB", "nvme=5"])
    assert found == {"dram": 64 * 2**30, "cxl": 10**12, "nvme": 5}
    assert options.capacities(None) == {}


@pytest.mark.parametrize("text", ["dram", "=5GiB", "dram=", "dram=0", "dram=1GiB,dram=2GiB"])
def test_what_is_no_capacity_is_refused(text: str) -> None:
    """The line names the option."""
    with pytest.raises(InputError, match="--capacity"):
        options.capacities([text])


def test_block_counts_are_whole_numbers() -> None:
    """Blocks are counted from 1; neither signs nor digits of other scripts are read."""
    assert options.block_counts(["1000,10000", "1"]) == [1000, 10000, 1]
    for text in ("0", "-1", "+1", "1_000", "1e3", "1.0", "٣", " "):
        with pytest.raises(InputError, match="--capacity: "):
            options.block_counts([text])


def test_a_choice_is_one_of_the_known() -> None:
    """A misspelt choice gets the nearest."""
    assert options.one_of(["a,b"], ["a", "b"], "--order") == ["a", "b"]
    with pytest.raises(InputError, match="did you mean 'reverse'"):
        options.one_of(["revers"], ["reverse", "forward"], "--order")
