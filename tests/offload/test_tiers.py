"""From what a user writes to stores, or one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiermem.core.chosen import make_policy
from tiermem.errors import DoesNotFit, InputError, TierUnavailable, UnknownName
from tiermem.offload.tiers import exact, rooms_of, stores_of
from tiermem.policies.lru import LRU

CAPACITIES = {"dram": 1 << 20, "nvme": 1 << 24}


def test_tiers_are_named_and_in_order(tmp_path: Path) -> None:
    """Fastest first, by the glossary's names; files have less room than they take."""
    stores = stores_of("64 KiB", tmp_path / "disk", "16 MiB", "me", {})
    rooms = rooms_of(stores)
    assert list(rooms) == ["dram", "nvme"]
    assert rooms["dram"] == 65536
    assert 2**23 < rooms["nvme"] < 2**24
    for store in stores.values():
        store.close()


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (("1 MiB", "folder", None, {}), "disk= is given without disk_bytes="),
        (("1 MiB", None, "1 GiB", {}), "disk_bytes= is given without disk="),
        (("1 MiB", None, None, {"cxl": 1}), "cxl= is given without cxl_bytes="),
        (("1 MiB", None, None, {"device_bytes": 5}), "device_bytes= is given without device="),
        ((None, "folder", "1 GiB", {}), "give host= a size"),
        (("some", None, None, {}), "host: 'some' is not a size"),
    ],
)
def test_half_a_tier_is_refused(places: Any, said: str) -> None:
    """A place without a size would be without a bound (known_faults 82)."""
    host, disk, disk_bytes, more = places
    with pytest.raises(InputError, match=said):
        stores_of(host, disk, disk_bytes, "", more)


def test_an_unknown_setting_is_named() -> None:
    """With the nearest one that there is."""
    more: Any = {"device_byte": "1 GiB"}
    with pytest.raises(UnknownName, match="did you mean 'device_bytes'"):
        stores_of("1 MiB", None, None, "", more)


def test_what_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    """A missing node or device, and more than the machine has; nothing is left behind."""
    with pytest.raises(TierUnavailable, match="cxl"):
        stores_of("64 KiB", None, None, "", {"cxl": 977, "cxl_bytes": "64 KiB"})
    with pytest.raises((TierUnavailable, DoesNotFit), match="hbm"):
        stores_of("64 KiB", None, None, "", {"device": "cuda:99", "device_bytes": "9000 TiB"})
    with pytest.raises(DoesNotFit):
        stores_of("9000 TiB", tmp_path / "disk", "1 MiB", "", {})


def test_an_order_alone_fills_its_tier() -> None:
    """Nothing leaves ahead of need, so that `tiermem hits` counts the same; a policy that says
    where its victims go is left as it is."""
    assert make_policy("lru", CAPACITIES).demote_ahead > 0
    text = exact("lru", CAPACITIES)
    assert isinstance(text, str)
    assert make_policy(text, CAPACITIES).demote_ahead == 0
    own = "lru:place=waterfall/ahead=0.1"
    assert exact(own, CAPACITIES) == own
    policy = make_policy("lru", CAPACITIES)
    assert exact(policy, CAPACITIES) is policy
    assert isinstance(policy.evict("dram"), LRU)
    with pytest.raises(UnknownName, match="lru"):
        exact("lur", CAPACITIES)
