"""Colours that never move, and numbers that can be read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiermem.report.plots import style


def test_a_policy_has_one_colour_everywhere() -> None:
    """The colour of a built-in depends neither on its place nor on its company."""
    alone = style.policy_colours(["s3fifo"])
    assert (
        style.policy_colours(["lru", "fifo", "s3fifo", "mine:Policy"])["s3fifo"]
        == (alone["s3fifo"])
    )
    built_in = style.policy_colours(["lru", "fifo", "lfu", "s3fifo"])
    assert len(set(built_in.values())) == len(built_in)


def test_unknown_policies_get_colours_of_their_own() -> None:
    """Names decide, not hash seeds or order, and two of them are never the same colour."""
    names = ["mine:A", "mine:B", "s3fifo:small=0.1", "s3fifo:small=0.2", "lru:order=forward"]
    found = style.policy_colours(names)
    assert len(set(found.values())) == len(names)
    assert style.policy_colours(reversed(names)) == found
    code = (
        "from tiermem.report.plots import style;"
        f"print(style.policy_colours({names!r}) == {found!r})"
    )
    for seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.strip() == "True"


def test_tiers_and_other_sources_are_told_apart() -> None:
    """Every source of a figure has its own colour."""
    names = ["hbm", "dram", "cxl", "nvme", "recompute", "rejected", "not_served", "cxl_pim", "csd"]
    assert len(set(style.source_colours(names).values())) == len(names)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.02, "0.02"), (999, "999"), (1000, "1k"), (250_000, "250k"), (1.2e6, "1.2M")],
)
def test_numbers_on_axes_are_short(value: float, text: str) -> None:
    """As many digits as an axis has room for."""
    assert style.short(value) == text
