"""The schema: sizes as people write them, shares up to one, five confidences."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tiermem.models.documents import Said, SystemLink, SystemTier


@pytest.mark.parametrize(
    ("text", "nbytes"), [("80 GiB", 80 * 2**30), ("3.84 TB", 3_840_000_000_000), (4096, 4096)]
)
def test_sizes_are_whole_bytes(text: str | int, nbytes: int) -> None:
    """Binary and decimal prefixes mean what they say; a bare number is bytes."""
    tier = SystemTier.model_validate({"name": "dram", "capacity": text})
    assert tier.capacity == nbytes


@pytest.mark.parametrize(
    "size", [0, -1, "0 GiB", "-3 GiB", "many", "64 gigs", 1.5, True, "inf", []]
)
def test_bad_sizes_are_refused(size: object) -> None:
    """Zero, negative, unknown units and other types are no capacity."""
    with pytest.raises(ValidationError, match="capacity"):
        SystemTier.model_validate({"name": "dram", "capacity": size})


@pytest.mark.parametrize("name", ["", "HBM", "2nd", "a b", "a-b"])
def test_tier_names_can_be_column_names(name: str) -> None:
    """A tier's name stands in tables and options, so it is a lower-case word."""
    with pytest.raises(ValidationError, match="name"):
        SystemTier.model_validate({"name": name})


@pytest.mark.parametrize("ends", [[], ["hbm"], ["hbm", "hbm"], ["a", "b", "c"], "hbm-host"])
def test_a_link_has_two_different_ends(ends: object) -> None:
    """One end, three ends or the same end twice are refused."""
    with pytest.raises(ValidationError, match="ends"):
        SystemLink.model_validate({"name": "wire", "ends": ends})


@pytest.mark.parametrize(
    "said", [{"confidence": "sure", "source": "x"}, {"confidence": "read", "source": ""}, {}]
)
def test_a_source_says_how_well_and_where(said: object) -> None:
    """The confidence is one of five words and the source is not empty."""
    with pytest.raises(ValidationError):
        Said.model_validate(said)
