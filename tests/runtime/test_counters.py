"""Counters are values: they compare, they sum up, they become strict JSON."""

from __future__ import annotations

import json

from tiermem.runtime.counters import NONE, WORDS, Count, Counters, TierCounters


def test_what_was_never_counted_is_zero_and_no_rate_is_null() -> None:
    """Every word is in the document from the start; a rate of nothing is null with a reason."""
    document = Counters({"dram": TierCounters()}).document()
    assert set(WORDS) < set(document["tiers"]["dram"])
    assert document["tiers"]["dram"]["offered"] == {"blocks": 0, "bytes": 0}
    assert document["hit_rate"] is None
    assert document["hit_rate_reason"] == "nothing was asked for yet"
    json.dumps(document, allow_nan=False)


def test_hits_of_all_tiers_make_the_rate() -> None:
    """Blocks hit in any tier over blocks asked for."""
    counters = Counters(
        {
            "dram": TierCounters(hit=Count(2, 200), refused={"policy": Count(1, 100)}),
            "nvme": TierCounters(hit=Count(1, 100)),
        },
        leases=3,
        asked=Count(4, 400),
        missed={"new": Count(1, 100)},
    )
    assert counters.hit == Count(3, 300)
    assert counters.hit_rate == 0.75
    assert counters["nvme"].stored == NONE
    document = counters.document()
    assert document["missed"] == {"new": {"blocks": 1, "bytes": 100}}
    assert document["tiers"]["dram"]["refused"] == {"policy": {"blocks": 1, "bytes": 100}}
    assert "hit_rate_reason" not in document
