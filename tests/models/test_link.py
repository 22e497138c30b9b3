"""A link joins two different places and moves something."""

from __future__ import annotations

import pytest

from tiermem.models.link import HOST, Link


def test_a_link_keeps_what_it_was_told() -> None:
    """Rates are per direction; nothing is halved or doubled on the way in."""
    link = Link("pcie", ("hbm", HOST), 51.5e9, True, 3600)
    assert (link.bytes_per_s, link.full_duplex, link.setup_ns) == (51.5e9, True, 3600)


@pytest.mark.parametrize(
    ("ends", "rate", "setup"), [(("a", "a"), 1.0, 0), (("a", "b"), 0.0, 0), (("a", "b"), 1.0, -1)]
)
def test_impossible_links_are_mistakes_of_ours(
    ends: tuple[str, str], rate: float, setup: int
) -> None:
    """A link to itself, without a rate or with negative set-up is an assertion."""
    with pytest.raises(AssertionError):
        Link("wire", ends, rate, True, setup)
